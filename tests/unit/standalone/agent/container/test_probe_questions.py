"""Pages and ports that answer well, badly, slowly, or not at all."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.standalone.agent.container.container_files import ContainerFiles
from kvedge.standalone.agent.container.container_spec import ContainerSpec, ExecAnswer, ExecSpec
from kvedge.standalone.agent.container.container_start import ContainerStarter, ContainerStartError
from kvedge.standalone.agent.container.container_state import Running
from kvedge.standalone.agent.container.probe_questions import Asked, ask, ask_page, ask_port, keep_process_spec
from kvedge.standalone.agent.container.probe_rules import Answer
from tests.support.certificate_files import FileAuthority

HOST = "127.0.0.1"


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Listen, answer each connection with the same bytes, one by one after `pause`; the port."""
    with contextlib.ExitStack() as stack:

        def start(answer: bytes, pause: float = 0.0, heard: list[bytes] | None = None, tls: Any = None) -> int:
            listener = stack.enter_context(socket.create_server((HOST, 0)))
            stop = threading.Event()

            def run() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        connection, _ = listener.accept()
                        with contextlib.suppress(OSError), connection:
                            found = tls.wrap_socket(connection, server_side=True) if tls else connection
                            with found:
                                request = found.recv(65536)
                                if heard is not None:
                                    heard.append(request)
                                for piece in [bytes((byte,)) for byte in answer] if pause else [answer]:
                                    if stop.wait(pause):
                                        return
                                    found.sendall(piece)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            stack.callback(thread.join, 5)
            stack.callback(lambda: (stop.set(), listener.shutdown(socket.SHUT_RDWR)))
            return int(listener.getsockname()[1])

        yield start


@pytest.mark.parametrize("status", [200, 204, 301, 399])
def test_a_good_status_is_a_yes(serve: Callable[..., int], status: int) -> None:
    port = serve(b"HTTP/1.1 %d whatever\r\n\r\n" % status)
    assert ask_page({"port": port}, HOST, 5) == Answer(passed=True)


@pytest.mark.parametrize("status", [100, 400, 404, 500, 503])
def test_a_bad_status_is_a_no_with_its_number(serve: Callable[..., int], status: int) -> None:
    port = serve(b"HTTP/1.0 %d\r\n\r\n" % status)
    assert ask_page({"port": port}, HOST, 5) == Answer(False, f"HTTP probe failed with statuscode: {status}")


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1\r\n", b"HTTP/1.1 abc\r\n", b"x" * 20_000], ids=lambda b: b[:8]
)
def test_what_is_no_page_is_a_no(serve: Callable[..., int], answer: bytes) -> None:
    found = ask_page({"port": serve(answer), "path": "/a b"}, HOST, 5)
    assert not found.passed
    assert "the answer is not HTTP" in found.words or "reset" in found.words


def test_the_request_is_a_probe_s(serve: Callable[..., int]) -> None:
    heard: list[bytes] = []
    port = serve(b"HTTP/1.1 200 OK\r\n\r\n", heard=heard)
    headers = [{"name": "X-A", "value": "b"}, {"name": "Host", "value": "shop.example"}]
    assert ask_page({"port": port, "path": "ready now?a=b", "httpHeaders": headers}, HOST, 5).passed
    lines = heard[0].decode().split("\r\n")
    assert lines[0] == "GET /ready%20now?a=b HTTP/1.1"
    assert sorted(lines[1:-2]) == [
        "accept: */*",
        "connection: close",
        "host: shop.example",
        "user-agent: kube-probe/kvedge",
        "x-a: b",
    ]


def test_a_header_cannot_smuggle_a_second_request(serve: Callable[..., int]) -> None:
    headers = [{"name": "X", "value": "a\r\n\r\nGET /other"}]
    found = ask_page({"port": serve(b""), "httpHeaders": headers}, HOST, 5)
    assert "a header holds what no header may" in found.words


def test_a_page_that_comes_letter_by_letter_takes_no_longer_than_it_may(serve: Callable[..., int]) -> None:
    port = serve(b"HTTP/1.1 200 OK" * 100, pause=0.05)
    begun = time.monotonic()
    found = ask_page({"port": port, "path": "/x"}, HOST, 0.3)
    assert found == Answer(False, f'Get "http://{HOST}:{port}/x": no answer within 0.3 s')
    assert time.monotonic() - begun < 30


def test_nobody_there_is_a_no() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port = taken.getsockname()[1]
        assert ask_page({"port": port}, HOST, 5).words == f'Get "http://{HOST}:{port}/": connection refused'
        assert ask_port({"port": port}, HOST, 5) == Answer(False, f"{HOST}:{port}: connection refused")


def test_a_port_is_asked_at_the_host_that_is_named(serve: Callable[..., int]) -> None:
    assert ask_port({"port": serve(b""), "host": HOST}, "192.0.2.1", 5).passed


@pytest.mark.parametrize("port", ["http", "", None])
def test_a_port_that_is_none_is_a_no(port: object) -> None:
    if port is not None:
        assert ask_port({"port": port}, HOST, 1).words == f"{HOST}:{port}: no such port"
    assert not ask_page({} if port is None else {"port": port}, HOST, 1).passed


def test_a_secure_page_is_asked_whoever_it_is(serve: Callable[..., int], tmp_path: Path) -> None:
    pair = FileAuthority(tmp_path, "nobody").issue("someone-else")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    port = serve(b"HTTP/1.1 200 OK\r\n\r\n", tls=context)
    assert ask_page({"port": port, "scheme": "HTTPS"}, HOST, 5) == Answer(passed=True)


def test_a_handshake_that_never_ends_takes_no_longer_than_it_may(serve: Callable[..., int]) -> None:
    found = ask_page({"port": serve(b"\x16\x03\x03\x40\x00" + b"x" * 500, pause=0.05), "scheme": "HTTPS"}, HOST, 0.3)
    assert "no answer within 0.3 s" in found.words


class PlayedStarter:
    """Answers for the container starter."""

    def __init__(self, answer: ExecAnswer | Exception) -> None:
        self.answer = answer
        self.asked: list[ExecSpec] = []

    def execute(self, spec: ExecSpec) -> ExecAnswer:
        self.asked.append(spec)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


KEPT = {
    "uid": 107,
    "gid": 107,
    "groups": [],
    "capabilities": [],
    "no_new_privileges": True,
    "seccomp": True,
    "oom_score_adj": 5,
    "cgroups": ["/c"],
    "env": {"A": "b"},
    "working_dir": "/",
}


def asked_program(tmp_path: Path, answer: ExecAnswer | Exception) -> tuple[Answer, list[ExecSpec]]:
    files = ContainerFiles(tmp_path / "uid", "c")
    files.process.parent.mkdir(parents=True, exist_ok=True)
    probe = {"exec": {"command": ["sh", "-c", "x"]}, "timeoutSeconds": 3}
    spec = cast("ContainerSpec", {**KEPT, "id": "i", "argv": ["launcher"], "root": "/r", "sysctls": {}})
    keep_process_spec(files, spec)
    starter = PlayedStarter(answer)
    found = ask(cast("ContainerStarter", starter), probe, Asked(files, Running(7, 8, 9.0), HOST, "Liveness"))
    return found, starter.asked


def test_a_program_gets_what_its_container_has(tmp_path: Path) -> None:
    found, asked = asked_program(tmp_path, {"exit_code": 0, "output": "well\n"})
    assert found.passed
    answer = str(tmp_path / "uid/containers/c.liveness")
    more = {"id": "uid/c", "answer": answer, "pid": 7, "start_time": 8, "argv": ["sh", "-c", "x"], "seconds": 3.0}
    assert asked == [{**KEPT, **more}]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"exit_code": 1, "output": " it\x1bhurts\n"}, "it hurts"),
        ({"exit_code": 3, "output": ""}, "the command's exit code is 3"),
        ({"late": True, "output": ""}, "command timed out after 3 s"),
        ({"late": True, "output": "so far"}, "command timed out after 3 s: so far"),
        (ContainerStartError("container uid/c does not run"), "container uid/c does not run"),
        ({"exit_code": 1, "output": "x" * 9999}, "x" * 512),
    ],
    ids=["a no", "without a word", "late", "late with words", "it has ended", "long"],
)
def test_a_program_that_fails_says_why(tmp_path: Path, answer: ExecAnswer | Exception, words: str) -> None:
    found, _ = asked_program(tmp_path, answer)
    assert found == Answer(False, words)


def test_a_container_of_an_older_kvedge_has_nothing_written_down(tmp_path: Path) -> None:
    files = ContainerFiles(tmp_path, "c")
    found = ask(cast("ContainerStarter", None), {"exec": {}}, Asked(files, Running(7, 8, 9.0), HOST, "Liveness"))
    assert "older kvedge" in found.words
