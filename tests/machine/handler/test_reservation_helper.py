"""qemu-pr-helper of this node: kept running, and reached by a real QEMU of a user without rights."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.handler.node.reservation_helper import PROGRAM, ReservationHelper
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID, PR_HELPER_SOCKET
from tests.support.clocks import FakeClock
from tests.support.waiting import wait_until

QEMU = "qemu-system-x86_64"
pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(not PROGRAM.exists(), reason="needs qemu-pr-helper"),
]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def helper(tmp_path: Path, clock: FakeClock) -> Iterator[ReservationHelper]:
    # Longer than the path of a socket may be.
    made = ReservationHelper(tmp_path / ("d" * 100) / "pr-helper", clock)
    yield made
    made.end()
    wait_until(lambda: not made.runs, "it has ended")


def pid_of(helper: ReservationHelper) -> int:
    return int((helper.directory / "helper.lock").read_text())


def connects(helper: ReservationHelper) -> bool:
    place = os.open(helper.directory, os.O_PATH | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{place}/{PR_HELPER_SOCKET}")
            # It says first what it can do.
            return len(client.recv(4)) == 4
    except OSError:
        return False
    finally:
        os.close(place)


def test_it_runs_as_the_real_program_with_a_socket_for_the_group_of_guests_alone(helper: ReservationHelper) -> None:
    assert helper.is_there
    assert not helper.runs
    helper.keep()
    assert helper.runs
    wait_until(lambda: connects(helper), "it answers")
    assert os.readlink(f"/proc/{pid_of(helper)}/exe") == str(PROGRAM.resolve())
    directory, found = helper.directory.stat(), (helper.directory / PR_HELPER_SOCKET).stat()
    assert (stat.S_IMODE(directory.st_mode), directory.st_uid, directory.st_gid) == (0o750, 0, LAUNCHER_GID)
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o660, 0, LAUNCHER_GID)


def test_one_that_ends_is_started_again_and_not_at_once(helper: ReservationHelper, clock: FakeClock) -> None:
    helper.keep()
    first = pid_of(helper)
    helper.keep()
    assert pid_of(helper) == first
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not helper.runs, "it has ended")
    helper.keep()
    assert not helper.runs
    clock.seconds += 10
    helper.keep()
    wait_until(lambda: connects(helper), "the next one answers")
    assert pid_of(helper) != first


def test_a_handler_that_comes_later_knows_the_one_that_runs_and_can_end_it(
    helper: ReservationHelper, clock: FakeClock
) -> None:
    helper.keep()
    later = ReservationHelper(helper.directory, clock)
    later.keep()
    assert later.runs
    first = pid_of(helper)
    assert pid_of(later) == first
    later.end()
    wait_until(lambda: not helper.runs, "it has ended")


class Machine:
    """A QEMU without a machine, as a launcher's user, which is spoken to by QMP."""

    def __init__(self, directory: Path) -> None:
        # The launcher's Pod has the directory at a short path.
        manager = f"pr-manager-helper,id=helper,path={directory}/{PR_HELPER_SOCKET}"
        command = [QEMU, "-machine", "none", "-nodefaults", "-display", "none", "-qmp", "stdio", "-object", manager]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=LAUNCHER_UID,
            group=LAUNCHER_GID,
            extra_groups=[],
        )

    def ask(self, command: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"execute": command}).encode() + b"\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
        raise AssertionError(self.process.communicate()[1])

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"needs {QEMU}")
def test_a_real_qemu_of_the_launchers_user_is_connected_to_it(helper: ReservationHelper, short_path: Path) -> None:
    helper.keep()
    wait_until(lambda: connects(helper), "it answers")
    short_path.mkdir()
    subprocess.run(["mount", "--bind", "-o", "ro", helper.directory, short_path], check=True)
    try:
        machine = Machine(short_path)
        try:
            machine.ask("qmp_capabilities")
            assert machine.ask("query-pr-managers") == [{"id": "helper", "connected": True}]
        finally:
            machine.end()
    finally:
        subprocess.run(["umount", short_path], check=True)


@pytest.fixture
def short_path() -> Iterator[Path]:
    path = Path(f"/run/kvedge-test-pr-{os.getpid()}")
    yield path
    path.rmdir()
