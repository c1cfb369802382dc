"""The program of a probe against grpc's own server, and its core against servers that misbehave."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.launcher.grpc_call import UnaryCall
from kvedge.launcher.guest_probe import main
from kvedge.rpc import launcher_pb2 as messages
from kvedge.rpc.launcher_pb2_grpc import LauncherServicer, add_LauncherServicer_to_server


class PlayedLauncher(LauncherServicer):
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[messages.GuestPingRequest | messages.GuestExecRequest] = []
        self.remaining = 0.0
        self.failure: tuple[grpc.StatusCode, str] | None = None
        self.reply = messages.GuestExecReply()

    def GuestPing(self, request: messages.GuestPingRequest, context: grpc.ServicerContext) -> messages.GuestPingReply:
        self._take(request, context)
        return messages.GuestPingReply()

    def GuestExec(self, request: messages.GuestExecRequest, context: grpc.ServicerContext) -> messages.GuestExecReply:
        self._take(request, context)
        return self.reply

    def _take(
        self, request: messages.GuestPingRequest | messages.GuestExecRequest, context: grpc.ServicerContext
    ) -> None:
        self.asked.append(request)
        self.remaining = context.time_remaining()
        if self.failure is not None:
            context.abort(*self.failure)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PlayedLauncher, str]]:
    launcher, path = PlayedLauncher(), str(tmp_path_factory.mktemp("probe") / "sock")
    server = grpc.server(ThreadPoolExecutor(2))
    add_LauncherServicer_to_server(launcher, server)  # type: ignore[no-untyped-call]  # generated
    server.add_insecure_port(f"unix:{path}")
    server.start()
    yield launcher, path
    server.stop(0).wait()


@pytest.fixture
def launcher(served: tuple[PlayedLauncher, str]) -> PlayedLauncher:
    served[0].__init__()  # type: ignore[misc]  # as new for each test
    return served[0]


@pytest.fixture
def probe(served: tuple[PlayedLauncher, str], capfd: pytest.CaptureFixture[str]) -> object:
    def ask(*arguments: str) -> tuple[int, str]:
        code = main(["--socket", served[1], *arguments])
        sys.stdout.flush()
        return code, capfd.readouterr().out

    return ask


def test_a_ping_that_is_answered_is_a_yes(launcher, probe) -> None:
    assert probe("--timeout-seconds", "3", "--guest-agent-ping") == (0, "")
    assert launcher.asked == [messages.GuestPingRequest(timeout_seconds=3)]
    assert 3 < launcher.remaining <= 4


def test_a_program_is_handed_over_word_by_word(launcher, probe) -> None:
    words = ["-c", "", "--command", "--", "a  b", "ü", "x" * 300]
    launcher.reply = messages.GuestExecReply(exit_code=0, output="all well\n")
    assert probe("--timeout-seconds", "7", "--command", "/bin/sh", "--", *words) == (0, "all well\n\n")
    assert launcher.asked == [messages.GuestExecRequest(command="/bin/sh", arguments=words, timeout_seconds=7)]


@pytest.mark.parametrize("code", [1, 3, 127, 255])
def test_the_exit_code_passes_through(launcher, probe, code: int) -> None:
    launcher.reply = messages.GuestExecReply(exit_code=code, output="no")
    assert probe("--command", "x") == (code, "no\n")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, "the QEMU guest agent is not connected"),
        (grpc.StatusCode.UNAVAILABLE, "100 % über\nzwei Zeilen"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "x" * 2000),
        (grpc.StatusCode.INTERNAL, ""),
    ],
)
def test_a_launcher_that_cannot_ask_is_a_no_in_its_words(launcher, probe, code, words: str) -> None:
    launcher.failure = (code, words)
    assert probe("--guest-agent-ping") == (1, f"{words}\n")


def test_a_launcher_of_before_is_a_no(tmp_path: Path, probe) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(f"unix:{tmp_path}/old")
    server.start()
    code, words = probe("--socket", f"{tmp_path}/old", "--guest-agent-ping")
    server.stop(0).wait()
    assert (code, words) == (1, "Method not found!\n")


def test_a_long_command_and_a_long_answer_fit(launcher, probe) -> None:
    launcher.reply = messages.GuestExecReply(output="y" * 10_240)
    code, output = probe("--command", "sh", "--", "-c", "z" * 32_000)
    assert (code, len(output)) == (0, 10_241)
    assert len(launcher.asked[0].arguments[1]) == 32_000


def test_a_command_that_is_far_too_long_is_said_so(launcher, probe) -> None:
    assert probe("--command", "z" * 100_000) == (1, "the launcher cannot be asked: the message is too long\n")


def test_no_launcher_is_a_no(tmp_path: Path, probe) -> None:
    code, words = probe("--socket", str(tmp_path / "none"), "--guest-agent-ping")
    assert code == 1
    assert words.startswith("the launcher cannot be asked: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--guest-agent-ping", "--command", "x"],
        ["--command"],
        ["--timeout-seconds", "x", "--guest-agent-ping"],
        ["--timeout-seconds"],
        ["--unknown"],
        ["x"],
    ],
    ids=" ".join,
)
def test_arguments_that_make_no_sense_are_answered_with_the_usage(arguments, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage: kvedge launcher-probe" in capfd.readouterr().err


def test_the_program_is_found_at_once_and_loads_nothing_of_note() -> None:
    program = "import sys, runpy; sys.argv = ['kvedge', 'launcher-probe', '--x']\n"
    program += "try: runpy.run_module('kvedge', run_name='__main__')\nexcept SystemExit: pass\nprint(*sys.modules)"
    without = "import sys, runpy, kvedge; print(*sys.modules)"
    more, less = (
        set(subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split())
        for text in (program, without)
    )
    names = ("__main__", "launcher", "launcher.grpc_call", "launcher.guest_probe", "launcher.launcher_call")
    ours = {f"kvedge.{name}" for name in names}
    assert more - less <= ours | {"_socket", "__future__", "pkgutil", "importlib.readers", "zipimport"}


ANSWER = (
    b"\0\0\0\x04\0\0\0\0\0"
    b"\0\0\x0e\x01\x04\0\0\0\x01\x88\x5f\x0bapplication"
    b"\0\0\x05\0\0\0\0\0\x01\0\0\0\0\0"
    b"\0\0\x0f\x01\x05\0\0\0\x01\x40\x0bgrpc-status\x010"
)


def asked() -> UnaryCall:
    call = UnaryCall("/a/b", b"", 1)
    assert call.to_send().startswith(b"PRI * HTTP/2.0")
    return call


@given(st.lists(st.integers(1, len(ANSWER) - 1), max_size=8))
def test_an_answer_may_come_in_any_pieces(cuts: list[int]) -> None:
    call = asked()
    places = [0, *sorted(set(cuts)), len(ANSWER)]
    for begin, end in itertools.pairwise(places):
        call.receive(ANSWER[begin:end])
    assert (call.status, call.reply) == (0, b"")
    assert call.to_send() == b"\0\0\0\x04\x01\0\0\0\0"


@given(st.binary(max_size=200), st.integers(0, len(ANSWER)))
def test_nonsense_is_never_a_yes_and_never_a_crash(noise: bytes, at: int) -> None:
    call = asked()
    call.receive(ANSWER[:at] + noise if noise else b"")
    call.receive(b"")
    assert call.status is not None
    if at < len(ANSWER) and not (ANSWER[:at] + noise).startswith(ANSWER):
        assert call.status != 0 or b"grpc-status" in noise + ANSWER[:at]


def test_an_answer_without_end_is_cut_off() -> None:
    call = asked()
    for _ in range(100):
        call.receive(b"\0\x04\0\0\0\0\0\0\x01" + bytes(1024))
    assert (call.status, call.detail) == (13, "the launcher's answer is too long")


def test_a_ping_of_the_server_is_answered() -> None:
    call = asked()
    call.receive(b"\0\0\x08\x06\0\0\0\0\0abcdefgh")
    assert call.to_send() == b"\0\0\x08\x06\x01\0\0\0\0abcdefgh"
    call.receive(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0")
    assert (call.status, call.detail) == (14, "the launcher refused the call")
