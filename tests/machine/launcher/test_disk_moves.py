"""Disks of a running QEMU that move to other claims: the launcher's part, with real images; no handler is involved."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import grpc
import pytest

from kvedge.resources.disks.moved_places import moved_place
from kvedge.rpc import launcher_pb2 as m
from tests.machine.launcher.test_disk_growth import place, with_claim
from tests.support.launcher_pod import QEMU_USER, LauncherPod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

MIB = 1 << 20
COPY = m.DiskCopy(volume="root", source_claim="web-root", claim="fast", place=moved_place("root", "fast"))
ARRIVING = ".disk.img.arriving"


def make_place(pod: LauncherPod, claim: str) -> Path:
    """The new claim's file system, where the handler has put it."""
    directory = pod.directory / "public" / "hotplug-disks" / moved_place("root", claim)
    directory.mkdir(parents=True)
    directory.parent.chmod(0o755)
    os.chown(directory, QEMU_USER, QEMU_USER)
    return directory


def start(pod: LauncherPod) -> tuple[Path, bytes]:
    """A guest with a disk that holds something; the image and its content."""
    image, content = place(pod) / "disk.img", os.urandom(2 * MIB)
    image.write_bytes(content)
    os.truncate(image, 32 * MIB)
    os.chown(image, QEMU_USER, QEMU_USER)
    pod.sync(with_claim(pod, "32Mi"))
    pod.wait_state(m.DOMAIN_STATE_RUNNING)
    return image, content


def order(pod: LauncherPod, goal: m.DiskMoveGoal, move: str = "m-1") -> m.DiskMove:
    disks = [COPY] if goal == m.DISK_MOVE_GOAL_COPY else []
    found: m.DiskMove = pod.call("MoveDisks", m.MoveDisksRequest(move_id=move, goal=goal, disks=disks)).disk_move
    return found


def wait_move(pod: LauncherPod, state: m.DiskMoveState) -> m.DiskMove:
    def there() -> m.DiskMove | None:
        found: m.DiskMove = pod.call("GetDomain").disk_move
        return found if found.state == state else None

    found = wait_until(there, f"the move is {m.DiskMoveState.Name(state)}", 30)
    assert found is not None
    return found


def test_a_disk_is_copied_settled_and_exchanged(pod: LauncherPod) -> None:
    image, content = start(pod)
    directory = make_place(pod, "fast")
    order(pod, m.DISK_MOVE_GOAL_COPY)
    wait_move(pod, m.DISK_MOVE_READY)
    assert (directory / ARRIVING).read_text().split() == [pod.uid, "m-1"]
    assert order(pod, m.DISK_MOVE_GOAL_SETTLE).state == m.DISK_MOVE_SETTLED
    # Nobody sees that its CPUs stand, and both disks may be used.
    assert pod.call("GetDomain").state == m.DOMAIN_STATE_RUNNING
    assert not (directory / ARRIVING).exists()
    assert (directory / "disk.img").read_bytes() == image.read_bytes()
    assert order(pod, m.DISK_MOVE_GOAL_FINISH).state == m.DISK_MOVE_DONE
    status = pod.call("GetDomain")
    assert [(disk.name, disk.place) for disk in status.disks] == [("root", COPY.place)]
    assert (status.state, sorted(os.listdir(directory))) == (m.DOMAIN_STATE_RUNNING, ["disk.img"])
    moved = directory / "disk.img"
    assert moved.read_bytes().startswith(content)
    # As sparse as it was.
    assert moved.stat().st_size == 32 * MIB
    assert moved.stat().st_blocks * 512 < 8 * MIB
    # It is no hotplugged disk, and stays when the VMI is told anew.
    pod.sync(with_claim(pod, "32Mi"))
    assert [disk.place for disk in pod.call("GetDomain").disks] == [COPY.place]


def test_a_launcher_that_is_killed_while_the_guest_stands_lets_it_go_on_or_finishes(pod: LauncherPod) -> None:
    start(pod)
    directory = make_place(pod, "fast")
    order(pod, m.DISK_MOVE_GOAL_COPY)
    wait_move(pod, m.DISK_MOVE_READY)
    order(pod, m.DISK_MOVE_GOAL_SETTLE)
    launcher = pod.launcher_pid()
    os.kill(launcher, signal.SIGKILL)

    def is_back() -> bool:
        try:
            return pod.launcher_pid() != launcher and pod.call("GetDomain").disk_move.state == m.DISK_MOVE_SETTLED
        except (OSError, grpc.RpcError):
            return False

    wait_until(is_back, "another launcher knows of the move", 40)
    assert order(pod, m.DISK_MOVE_GOAL_FINISH).state == m.DISK_MOVE_DONE
    assert [disk.place for disk in pod.call("GetDomain").disks] == [COPY.place]
    assert sorted(os.listdir(directory)) == ["disk.img"]


def test_a_copy_that_is_not_wanted_leaves_nothing(pod: LauncherPod) -> None:
    image, content = start(pod)
    directory = make_place(pod, "fast")
    order(pod, m.DISK_MOVE_GOAL_COPY)
    wait_move(pod, m.DISK_MOVE_READY)
    order(pod, m.DISK_MOVE_GOAL_SETTLE)
    assert order(pod, m.DISK_MOVE_GOAL_COPY).state in (m.DISK_MOVE_COPYING, m.DISK_MOVE_READY)
    assert (directory / ARRIVING).exists()
    assert order(pod, m.DISK_MOVE_GOAL_ABORT).state == m.DISK_MOVE_FAILED
    assert os.listdir(directory) == []
    status = pod.call("GetDomain")
    assert (status.state, [disk.place for disk in status.disks]) == (m.DOMAIN_STATE_RUNNING, [""])
    assert image.read_bytes().startswith(content)
