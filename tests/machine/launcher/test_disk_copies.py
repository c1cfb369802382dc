"""Disks of a guest that writes are copied as they all were at one moment, and the guest runs on whatever happens."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.agent_guest import NO_AGENT, agent_image, agent_vmi, false_agent, in_guest
from tests.support.held_copies import held_copy
from tests.support.launcher_pod import QEMU_USER, LauncherPod, kill, launcher_pod
from tests.support.numbered_writes import check_one_moment, writer_script
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine
DISKS = ("one", "two")
ENDED = (m.DISK_COPY_COMPLETE, m.DISK_COPY_FAILED)


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, seed: Path) -> Iterator[LauncherPod]:
    """One guest for all tests here, which writes to two disks all the time."""
    image = agent_image(tmp_path_factory.mktemp("image"))
    with launcher_pod(tmp_path_factory.mktemp("copies"), seed=seed, images={"kernel-boot": image}) as started:
        (started.directory / "public" / "hotplug-disks").mkdir(mode=0o755)
        started.sync(with_disks(agent_vmi(started)), network=True)
        wait_until(lambda: status(started).guest.os_id, "what the agent says", seconds=60, pause=0.1)
        in_guest(started, writer_script("/dev/vdb", "/dev/vdc"))
        wait_until(lambda: number(started) > 3, "the guest writes", seconds=30)
        yield started


def with_disks(vmi: dict[str, Any]) -> dict[str, Any]:
    """The guest with two more disks, before the one that it is set up by."""
    spec = vmi["spec"]
    spec["domain"]["devices"]["disks"][1:1] = [{"name": name, "disk": {"bus": "virtio"}} for name in DISKS]
    spec["volumes"] += [{"name": name, "emptyDisk": {"capacity": "64Mi"}} for name in DISKS]
    return vmi


def status(pod: LauncherPod) -> Any:
    return pod.call("GetDomain")


def number(pod: LauncherPod) -> int:
    """The last block that the guest knows to be on both disks."""
    return int(in_guest(pod, "cat /run/number 2>/dev/null || echo 0") or "0")


def target(pod: LauncherPod, name: str) -> Path:
    """An image as the handler has put it into the Pod."""
    path = pod.directory / "public" / "hotplug-disks" / f"{name}.img"
    path.write_bytes(b"\0" * 4096)
    os.chown(path, QEMU_USER, QEMU_USER)
    return path


def begin(pod: LauncherPod, copy: str, *disks: str) -> list[Path]:
    targets = [target(pod, f"{copy}-{disk}") for disk in disks]
    wanted = [m.CopiedDisk(volume=disk, target=f"{copy}-{disk}") for disk in disks]
    pod.call("BeginDiskCopy", m.BeginDiskCopyRequest(id=copy, disks=wanted))
    return targets


def ended(pod: LauncherPod, copy: str, seconds: float = 60) -> Any:
    def over() -> Any:
        try:
            found = status(pod).disk_copy
        except grpc.RpcError:
            # Its launcher was just killed.
            return None
        return found if found.id == copy and found.state in ENDED else None

    return wait_until(over, "the copy is over", seconds=seconds, pause=0.1)


def leaves_nothing(pod: LauncherPod) -> bool:
    """No socket, no file for what was written over, no process, and no job: another copy could begin."""
    rest = [pod.directory / "private" / pod.uid / "copy.sock", pod.directory / "ephemeral" / "copy-scratch"]
    return not any(path.exists() for path in rest) and not any("qemu-img" in name for name in pod.processes().values())


def still_writes(pod: LauncherPod) -> bool:
    before = number(pod)
    wait_until(lambda: number(pod) > before, "the guest writes on", seconds=20)
    return bool(status(pod).fs_freeze_status != "frozen" and status(pod).state == m.DOMAIN_STATE_RUNNING)


def test_two_disks_are_copied_as_they_were_at_one_moment(pod: LauncherPod) -> None:
    before = number(pod)
    one, two = begin(pod, "first", *DISKS)
    job = ended(pod, "first")
    assert (job.state, job.message, job.quiesce) == (m.DISK_COPY_COMPLETE, "", "GuestAgent")
    assert 0 < job.frozen_ms < 10_000
    assert one.stat().st_size == two.stat().st_size == 64 << 20
    # Holes stay holes.
    assert one.stat().st_blocks * 512 < 8 << 20
    moment = check_one_moment(one, two)
    assert before <= moment < number(pod)
    assert still_writes(pod)
    assert leaves_nothing(pod)


def test_a_copy_that_is_asked_for_again_is_not_made_again(pod: LauncherPod) -> None:
    one, _ = begin(pod, "again", *DISKS)
    ended(pod, "again")
    changed = one.stat().st_mtime_ns
    wanted = [m.CopiedDisk(volume="one", target="again-one")]
    pod.call("BeginDiskCopy", m.BeginDiskCopyRequest(id="again", disks=wanted))
    assert status(pod).disk_copy.state == m.DISK_COPY_COMPLETE
    assert one.stat().st_mtime_ns == changed


def test_a_paused_guest_is_copied_without_a_freeze(pod: LauncherPod) -> None:
    pod.call("Pause")
    one, two = begin(pod, "paused", *DISKS)
    job = ended(pod, "paused")
    pod.call("Unpause")
    assert (job.state, job.quiesce, job.frozen_ms) == (m.DISK_COPY_COMPLETE, "Paused", 0)
    check_one_moment(one, two)
    assert still_writes(pod)


def fill(pod: LauncherPod) -> None:
    """Have the guest put data on a disk, beyond its numbered blocks, that takes a moment to copy."""
    in_guest(pod, "dd if=/dev/urandom of=/dev/vdb bs=1M seek=2 count=24 2>/dev/null", seconds=60)


def held(pod: LauncherPod, copy: str) -> contextlib.AbstractContextManager[int]:
    """A copy that stands still in the middle."""
    return held_copy(lambda: begin(pod, copy, *DISKS), f"/hotplug-disks/{copy}-")


def test_a_launcher_goes_on_with_the_copy_of_one_that_was_killed(pod: LauncherPod) -> None:
    fill(pod)
    with held(pod, "killed"):
        assert status(pod).disk_copy.state == m.DISK_COPY_ACTIVE
        before = number(pod)
        kill(pod.launcher_pid())
        job = ended(pod, "killed")
    assert (job.state, job.message, job.quiesce) == (m.DISK_COPY_COMPLETE, "", "GuestAgent")
    # What the guest has written since is not in it.
    paths = [pod.directory / "public" / "hotplug-disks" / f"killed-{name}.img" for name in DISKS]
    assert check_one_moment(*paths) <= before
    wait_until(lambda: leaves_nothing(pod), "nothing is left", seconds=20)
    assert still_writes(pod)
    one, two = begin(pod, "after", *DISKS)
    assert ended(pod, "after").state == m.DISK_COPY_COMPLETE
    check_one_moment(one, two)


def test_a_copy_that_nobody_wants_any_more_ends_at_once(pod: LauncherPod) -> None:
    with held(pod, "unwanted"):
        pod.call("AbortDiskCopy", m.AbortDiskCopyRequest(id="unwanted"))
        job = ended(pod, "unwanted")
    assert (job.state, job.message) == (m.DISK_COPY_FAILED, "it was called off")
    assert leaves_nothing(pod)
    assert still_writes(pod)


def test_what_the_guest_writes_meanwhile_is_not_in_the_copy(pod: LauncherPod) -> None:
    with held(pod, "late"):
        before = number(pod)
        assert still_writes(pod)
        after = number(pod)
    assert before < after
    assert ended(pod, "late").state == m.DISK_COPY_COMPLETE
    paths = [pod.directory / "public" / "hotplug-disks" / f"late-{name}.img" for name in DISKS]
    assert check_one_moment(*paths) <= before


def test_a_guest_that_writes_more_than_there_is_room_for_ends_the_copy_and_goes_on(pod: LauncherPod) -> None:
    place = "/run/kubevirt-ephemeral-disks/copy-scratch"
    pod.run_in_mounts("mkdir", "-p", place)
    pod.run_in_mounts("mount", "-t", "tmpfs", "-o", "size=8m,uid=107,gid=107,mode=700", "scratch", place)
    try:
        with held(pod, "crowded"):
            in_guest(pod, "dd if=/dev/urandom of=/dev/vdb bs=64k seek=32 count=400 2>/dev/null &", seconds=60)
            job = ended(pod, "crowded")
        assert job.state == m.DISK_COPY_FAILED
        assert "no space left for what the guest writes over" in job.message
        pod.wait_state(m.DOMAIN_STATE_RUNNING)
        assert still_writes(pod)
    finally:
        pod.run_in_mounts("umount", place)


def test_a_target_without_room_is_told_and_does_not_concern_the_guest(pod: LauncherPod) -> None:
    place = "/run/kubevirt/hotplug-disks"
    fill(pod)
    pod.run_in_mounts("mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "targets", place)
    try:
        pod.run_in_mounts("install", "-o", "107", "-g", "107", "-m", "660", "/dev/null", f"{place}/full-one.img")
        wanted = [m.CopiedDisk(volume="one", target="full-one")]
        pod.call("BeginDiskCopy", m.BeginDiskCopyRequest(id="full", disks=wanted))
        job = ended(pod, "full")
        assert job.state == m.DISK_COPY_FAILED
        assert "no space left for the copy of" in job.message
    finally:
        pod.run_in_mounts("umount", place)
    assert leaves_nothing(pod)
    assert still_writes(pod)


def test_an_agent_that_hangs_is_asked_again_until_nobody_wants_the_copy(pod: LauncherPod) -> None:
    in_guest(pod, "killall -STOP qemu-ga")
    try:
        begin(pod, "hanging", *DISKS)
        wait_until(lambda: "cannot be frozen" in status(pod).disk_copy.message, "it is told", seconds=60)
        assert status(pod).disk_copy.state == m.DISK_COPY_PREPARING
        pod.call("AbortDiskCopy", m.AbortDiskCopyRequest(id="hanging"))
        assert ended(pod, "hanging").message == "it was called off"
    finally:
        in_guest(pod, "killall -CONT qemu-ga")
    assert leaves_nothing(pod)
    wait_until(lambda: not (pod.directory / "private" / pod.uid / "freeze.json").exists(), "it is thawed", seconds=60)
    assert still_writes(pod)


def test_a_qemu_that_is_killed_fails_the_copy(tmp_path: Path, seed: Path) -> None:
    (tmp_path / "image").mkdir()
    image = agent_image(tmp_path / "image")
    (tmp_path / "pod").mkdir()
    with launcher_pod(tmp_path / "pod", seed=seed, images={"kernel-boot": image}) as pod:
        (pod.directory / "public" / "hotplug-disks").mkdir(mode=0o755)
        pod.sync(with_disks(agent_vmi(pod)), network=True)
        wait_until(lambda: status(pod).guest.os_id, "what the agent says", seconds=60, pause=0.1)
        fill(pod)
        with held(pod, "lost"):
            kill(pod.qemu_pids()[0])
            pod.wait_state(m.DOMAIN_STATE_CRASHED)
        job = ended(pod, "lost")
        assert (job.state, job.message) == (m.DISK_COPY_FAILED, "the guest ended while its disks were copied")


# As on Windows, where writers go on by themselves after ten seconds, and the thaw is told so.
LIMITED = """case $line in
*fsfreeze-thaw*)
    if [ -e /run/thawed ]; then echo '{"return": 1}'
    else echo '{"error": {"class": "GenericError", "desc": "fsfreeze is limited up to 10 seconds"}}'; fi
    touch /run/thawed ;;
*fsfreeze-freeze*) echo '{"return": 1}' ;;
*fsfreeze-status*) echo '{"return": "thawed"}' ;;
*) echo '{"error": {"class": "CommandNotFound", "desc": "none"}}' ;;
esac"""


def test_a_guest_without_an_agent_and_one_that_thaws_by_itself_are_told_of(tmp_path: Path, seed: Path) -> None:
    (tmp_path / "image").mkdir()
    image = agent_image(tmp_path / "image")
    (tmp_path / "pod").mkdir()
    with launcher_pod(tmp_path / "pod", seed=seed, images={"kernel-boot": image}) as pod:
        (pod.directory / "public" / "hotplug-disks").mkdir(mode=0o755)
        pod.sync(with_disks(agent_vmi(pod, NO_AGENT)), network=True)
        wait_until(lambda: in_guest(pod, "echo here"), "the guest", seconds=60)
        in_guest(pod, writer_script("/dev/vdb", "/dev/vdc"))
        wait_until(lambda: number(pod) > 3, "the guest writes", seconds=30)
        one, two = begin(pod, "alone", *DISKS)
        job = ended(pod, "alone")
        assert (job.state, job.quiesce, job.frozen_ms) == (m.DISK_COPY_COMPLETE, "NoGuestAgent", 0)
        check_one_moment(one, two)
        false_agent(pod, f"fake {shlex.quote(LIMITED)}")
        wait_until(lambda: status(pod).agent_connected, "the agent is there", seconds=30)
        one, two = begin(pod, "limited", *DISKS)
        job = ended(pod, "limited")
        assert (job.state, job.quiesce) == (m.DISK_COPY_COMPLETE, "QuiesceTimeout")
        check_one_moment(one, two)
        promise = pod.directory / "private" / pod.uid / "freeze.json"
        wait_until(lambda: not promise.exists(), "it is thawed", seconds=60)
