"""The program by which a backup freezes a guest, against grpc's own server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from kvedge.launcher.backup_freezer import main
from kvedge.rpc import launcher_pb2 as messages
from kvedge.rpc.launcher_pb2_grpc import LauncherServicer, add_LauncherServicer_to_server

GUEST = ("--name", "web", "--namespace", "shop")


class PlayedLauncher(LauncherServicer):
    """A guest that runs and has an agent, unless it is told otherwise."""

    def __init__(self) -> None:
        self.status = messages.DomainStatus(
            sequence=7, uuid="u", state=messages.DOMAIN_STATE_RUNNING, agent_connected=True, machine_type="q35"
        )
        self.done: list[object] = []
        self.failure = ""

    def GetDomain(self, request: messages.GetDomainRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        return self.status

    def Freeze(self, request: messages.FreezeRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        if self.failure:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.failure)
        self.done.append(request.unfreeze_seconds)
        return self.status

    def Unfreeze(self, request: messages.UnfreezeRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        self.done.append("thawed")
        return self.status


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[PlayedLauncher]:
    played = PlayedLauncher()
    server = grpc.server(ThreadPoolExecutor(1))
    add_LauncherServicer_to_server(played, server)  # type: ignore[no-untyped-call]  # generated
    server.add_insecure_port(f"unix:{tmp_path}/sock")
    server.start()
    yield played
    server.stop(0).wait()


def run(tmp_path: Path, *words: str) -> int:
    return main([*words, *GUEST], f"{tmp_path}/sock")


def test_a_guest_is_frozen_for_a_while_and_thawed(launcher: PlayedLauncher, tmp_path: Path) -> None:
    assert run(tmp_path, "--freeze") == 0
    assert run(tmp_path, "--freeze", "--unfreezeTimeoutSeconds=60") == 0
    assert run(tmp_path, "--freeze", "--unfreezeTimeoutSeconds", "999999999999") == 0
    assert run(tmp_path, "--unfreeze") == 0
    assert launcher.done == [300, 60, 86400, "thawed"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (messages.DomainStatus(state=messages.DOMAIN_STATE_RUNNING), "no agent that is connected"),
        (messages.DomainStatus(state=messages.DOMAIN_STATE_PAUSED, agent_connected=True), "does not run"),
        (messages.DomainStatus(), "does not run"),
    ],
    ids=["no agent", "paused", "not there"],
)
def test_a_guest_that_cannot_be_frozen_holds_up_no_backup(
    launcher: PlayedLauncher, tmp_path: Path, status: object, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.status = status  # type: ignore[assignment]
    assert run(tmp_path, "--freeze") == 0
    assert launcher.done == []
    assert words in capsys.readouterr().out


def test_a_freeze_that_fails_is_said(
    launcher: PlayedLauncher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.failure = "the guest agent refuses"
    assert run(tmp_path, "--freeze") == 1
    assert "the guest agent refuses" in capsys.readouterr().err


def test_no_launcher_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--freeze") == 1
    assert "the launcher cannot be asked" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        (),
        GUEST,
        ("--freeze",),
        ("--freeze", "--unfreeze", *GUEST),
        ("--freeze", "--thaw", *GUEST),
        ("--freeze", "--name", "web", "--namespace"),
        ("--freeze", "--unfreezeTimeoutSeconds=soon", *GUEST),
    ],
    ids=["nothing", "no verb", "no guest", "two verbs", "an unknown one", "no value", "no number"],
)
def test_what_makes_no_sense_is_answered_by_the_usage(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(words), f"{tmp_path}/sock") == 2
    assert "usage: virt-freezer" in capsys.readouterr().err


def test_the_program_is_found(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvedge", "launcher-freezer"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "usage: virt-freezer" in done.stderr) == (2, True)
