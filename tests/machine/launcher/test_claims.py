"""Disks on claims, with real launchers and QEMUs: one writer at a time, full disks, and nothing lost when killed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.guest import KERNEL_ARGUMENTS, build_guest
from tests.support.launcher_pod import QEMU_USER, LauncherPod, kill, launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

MIB = 1 << 20
BLOCK = 4096
# How many kills a guest has to survive with all that it was told is written; a whole proof is 200.
ROUNDS = int(os.environ.get("KVEDGE_TEST_KILL_ROUNDS", "4"))
# A launcher that is killed more often is given up by its monitor.
LAUNCHER_KILLS = 3
# Writes numbered blocks from FIRST on, and says of each one, when it is on disk, that it is.
WRITER = """#!/bin/sh
i=FIRST
while :; do
    printf 'block %010d' $i | dd of=/dev/vda bs=4096 seek=$i conv=sync,fsync 2>/dev/null && echo "acked $i" >/dev/ttyS0
    i=$((i+1))
done
"""
ACKED = re.compile(rb"acked (\d+)\r?\n")


@pytest.fixture(scope="session")
def kernel_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel image's tree with the small guest."""
    tree = tmp_path_factory.mktemp("claim-kernel")
    tree.chmod(0o755)
    guest = build_guest(agent=True)
    (tree / "boot").mkdir()
    shutil.copyfile(guest.kernel, tree / "boot" / "vmlinuz")
    shutil.copyfile(guest.initrd, tree / "boot" / "initrd")
    return tree


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """A claim's file system, as fsGroup leaves it."""
    place = tmp_path / "claim"
    place.mkdir()
    os.chown(place, 0, QEMU_USER)
    place.chmod(0o2770)
    return place


def mounted(claim: Path) -> str:
    """Shell for a Pod that has the claim as volume `data`."""
    place = "/run/kubevirt-private/vmi-disks/data"
    return f"mkdir -p {place}; mount --bind {claim} {place}"


def vmi_on(pod: LauncherPod, size: str = "24Mi", mode: str = "Filesystem", **more: Any) -> dict[str, Any]:
    """An empty guest with the claim as its disk."""
    info = {"claimName": "web-data", "volumeMode": mode, "requests": {"storage": size}}
    made = pod.vmi(
        domain={"memory": {"guest": "64Mi"}, "devices": {"disks": [{"name": "data", "disk": {"bus": "virtio"}}]}},
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "web-data"}}],
    )
    made["status"] = {"volumeStatus": [{"name": "data", "target": "", "persistentVolumeClaimInfo": info}]}
    made["spec"]["domain"]["devices"]["disks"][0] |= more
    return made


def writing_vmi(pod: LauncherPod, first: int, size: str, **more: Any) -> dict[str, Any]:
    """A guest that writes numbered blocks to its claim."""
    made = vmi_on(pod, size, **more)
    container = {"image": "kernel", "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd"}
    made["spec"]["domain"] |= {
        "memory": {"guest": "192Mi"},
        "firmware": {"kernelBoot": {"kernelArgs": KERNEL_ARGUMENTS, "container": container}},
    }
    made["spec"]["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    data = WRITER.replace("FIRST", str(first))
    made["spec"]["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": data}})
    return made


def acked(pod: LauncherPod) -> int:
    """The last block that the guest was told is on disk; 0 when there is none yet."""
    try:
        found = ACKED.findall((pod.directory / "private" / pod.uid / "virt-serial0-log").read_bytes())
    except FileNotFoundError:
        return 0
    return int(found[-1]) if found else 0


def missing(image: Path, first: int, last: int) -> list[int]:
    """The blocks that are not on disk as they were written."""
    with image.open("rb") as file:
        file.seek(first * BLOCK)
        content = file.read((last - first + 1) * BLOCK)
    expected = ((number, b"block %010d" % number) for number in range(first, last + 1))
    return [number for place, (number, text) in enumerate(expected) if content[place * BLOCK :][: len(text)] != text]


def test_an_absent_image_is_made_by_the_guests_user_and_is_its_disk(tmp_path: Path, seed: Path, claim: Path) -> None:
    with launcher_pod(tmp_path / "pod", seed=seed, before=mounted(claim)) as pod:
        started = pod.sync(vmi_on(pod))
        assert (started.state, [disk.target for disk in started.disks]) == (m.DOMAIN_STATE_RUNNING, ["vda"])
    found = (claim / "disk.img").stat()
    assert (found.st_uid, found.st_gid, found.st_size) == (QEMU_USER, QEMU_USER, 24 * MIB)


def test_an_image_that_had_to_be_smaller_than_its_claim_is_told(tmp_path: Path, seed: Path, claim: Path) -> None:
    with (
        small_file_system(claim, "23m"),
        launcher_pod(tmp_path / "pod", seed=seed, before=mounted(claim)) as pod,
    ):
        (note,) = pod.sync(vmi_on(pod)).small_disks
        assert note.startswith(f"PV size too small: expected {24 * MIB} B, found ")


def test_of_two_guests_on_one_claim_the_second_waits_and_starts_when_the_first_has_ended(
    tmp_path: Path, seed: Path, claim: Path
) -> None:
    with launcher_pod(tmp_path / "second", seed=seed, before=mounted(claim)) as second:
        with launcher_pod(tmp_path / "first", seed=seed, before=mounted(claim)) as first:
            first.sync(vmi_on(first))
            refused(second, vmi_on(second), "disk.img is open in another QEMU")
        wait_until(lambda: starts(second, vmi_on(second)), "the second guest starts by itself")


def test_two_guests_that_both_share_a_claim_run_at_once(tmp_path: Path, seed: Path, claim: Path) -> None:
    with (
        launcher_pod(tmp_path / "first", seed=seed, before=mounted(claim)) as first,
        launcher_pod(tmp_path / "second", seed=seed, before=mounted(claim)) as second,
    ):
        for pod in (first, second):
            assert pod.sync(vmi_on(pod, shareable=True)).state == m.DOMAIN_STATE_RUNNING


def test_a_device_stays_one_guests_while_its_launcher_is_killed(tmp_path: Path, seed: Path) -> None:
    with loop_device(tmp_path / "device.img") as number:
        node = f"mknod /dev/data b 7 {number}; chown 107:107 /dev/data; chmod 600 /dev/data"
        with launcher_pod(tmp_path / "second", seed=seed, before=node) as second:
            with launcher_pod(tmp_path / "first", seed=seed, before=node) as first:
                assert first.sync(vmi_on(first, mode="Block")).state == m.DOMAIN_STATE_RUNNING
                refused(second, vmi_on(second, mode="Block"), "is in use on this node, by another VM")
                kill(first.launcher_pid())
                refused(second, vmi_on(second, mode="Block"), "is in use on this node, by another VM")
                assert len(first.qemu_pids()) == 1
            wait_until(lambda: starts(second, vmi_on(second, mode="Block")), "the second guest starts by itself")


def test_a_guest_that_fills_its_disks_place_is_paused_and_goes_on_when_there_is_room(
    tmp_path: Path, seed: Path, kernel_image: Path, claim: Path
) -> None:
    with small_file_system(claim, "48m"):
        filler = claim / "filler"
        with launcher_pod(
            tmp_path / "pod", seed=seed, images={"kernel-boot": kernel_image}, before=mounted(claim)
        ) as pod:
            pod.sync(writing_vmi(pod, 1, "32Mi"))
            wait_until(lambda: acked(pod) > 10, "the guest writes", seconds=120)
            with filler.open("wb", buffering=0) as file:
                fill(file.fileno())
            stopped = pod.wait_state(m.DOMAIN_STATE_PAUSED, seconds=120)
            assert stopped.reason == m.DOMAIN_REASON_IO_ERROR
            assert [(error.name, error.no_space) for error in stopped.disk_errors] == [("data", True)]
            before = acked(pod)
            assert missing(claim / "disk.img", 1, before) == []
            filler.unlink()
            pod.wait_state(m.DOMAIN_STATE_RUNNING, seconds=120)
            wait_until(lambda: acked(pod) > before + 10, "the guest goes on", seconds=120)


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_every_block_that_a_guest_was_told_is_written_is_there_after_each_kill(
    tmp_path: Path, seed: Path, kernel_image: Path, claim: Path
) -> None:
    image, done, last = claim / "disk.img", 0, 0
    while done < ROUNDS:
        with launcher_pod(
            tmp_path / f"pod-{done}", seed=seed, images={"kernel-boot": kernel_image}, before=mounted(claim)
        ) as pod:
            first = last + 1
            pod.sync(writing_vmi(pod, first, "2Gi"))
            wait_until(lambda pod=pod, first=first: acked(pod) > first, "the guest writes", seconds=180)
            for _ in range(min(LAUNCHER_KILLS, ROUNDS - done - 1)):
                before = acked(pod)
                kill(wait_until(lambda pod=pod: launcher(pod), "a launcher"))
                wait_until(lambda pod=pod, before=before: acked(pod) > before, "it writes on", seconds=60)
                done += 1
            last = acked(pod)
            for qemu in pod.qemu_pids():
                kill(qemu)
            wait_until(lambda pod=pod: not pod.qemu_pids(), "QEMU is gone")
            last = max(last, acked(pod))
            done += 1
        assert missing(image, 1, last) == []
    assert last > ROUNDS
    # What was never written is told as missing.
    assert missing(image, last + 1000, last + 1000) == [last + 1000]


def launcher(pod: LauncherPod) -> int:
    try:
        return pod.launcher_pid()
    except OSError:
        return 0


def refused(pod: LauncherPod, vmi: dict[str, Any], words: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        pod.sync(vmi)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert words in caught.value.details()
    assert pod.call("GetDomain").state == m.DOMAIN_STATE_ABSENT


def starts(pod: LauncherPod, vmi: dict[str, Any]) -> bool:
    """Whether it starts now; the kernel needs a moment to end a Pod that was killed."""
    try:
        return bool(pod.sync(vmi).state == m.DOMAIN_STATE_RUNNING)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
            raise
        return False


def fill(descriptor: int) -> None:
    """Write until nothing more fits."""
    for piece in (MIB, 4096):
        try:
            while True:
                os.write(descriptor, bytes(piece))
        except OSError:
            continue


@contextmanager
def small_file_system(place: Path, size: str) -> Iterator[None]:
    """A file system of its own at the place, which the tests can fill."""
    options = f"size={size},mode=2770,gid={QEMU_USER}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def loop_device(file: Path) -> Iterator[int]:
    """A block device over a file; its minor number."""
    with file.open("wb") as made:
        made.truncate(24 * MIB)
    done = subprocess.run(["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine gives no loop devices: {done.stderr.strip()}")
    device = done.stdout.strip()
    try:
        yield os.minor(os.stat(device).st_rdev)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
