"""Backups of a guest that writes: all of its disks, then what has changed, and the chain is the disks at one moment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.agent_guest import agent_image, agent_vmi, in_guest
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
    with launcher_pod(tmp_path_factory.mktemp("backups"), seed=seed, images={"kernel-boot": image}) as started:
        claim = started.directory / "public" / "hotplug-disks" / "target"
        claim.mkdir(parents=True, mode=0o755)
        os.chown(claim, QEMU_USER, QEMU_USER)
        vmi = agent_vmi(started)
        spec = vmi["spec"]
        spec["domain"]["devices"]["disks"][1:1] = [{"name": name, "disk": {"bus": "virtio"}} for name in DISKS]
        spec["volumes"] += [{"name": name, "emptyDisk": {"capacity": "64Mi"}} for name in DISKS]
        started.sync(vmi, network=True)
        wait_until(lambda: started.call("GetDomain").guest.os_id, "what the agent says", seconds=60, pause=0.1)
        in_guest(started, writer_script("/dev/vdb", "/dev/vdc"))
        wait_until(lambda: number(started) > 3, "the guest writes", seconds=30)
        yield started


def answers(pod: LauncherPod) -> bool:
    try:
        return bool(pod.call("GetDomain").guest.os_id)
    except grpc.RpcError:
        return False


def number(pod: LauncherPod) -> int:
    """The last block that the guest knows to be on both disks."""
    return int(in_guest(pod, "cat /run/number 2>/dev/null || echo 0") or "0")


def directory(pod: LauncherPod, name: str) -> Path:
    return pod.directory / "public" / "hotplug-disks" / "target" / "vm" / name


def back_up(pod: LauncherPod, name: str, **more: Any) -> Any:
    """Take a backup whose checkpoint has its name."""
    backup = m.BackupFiles(target="target", directory=f"vm/{name}", name="b", checkpoint=name, vm="vm", **more)
    disks = [m.CopiedDisk(volume=disk) for disk in DISKS]
    pod.call("BeginDiskCopy", m.BeginDiskCopyRequest(id=name, disks=disks, backup=backup))

    def over() -> Any:
        found = pod.call("GetDomain").disk_copy
        return found if found.id == name and found.state in ENDED else None

    return wait_until(over, "the backup is over", seconds=60, pause=0.1)


def restore(pod: LauncherPod, into: Path, *names: str) -> list[Path]:
    """The disks that a chain of backups holds."""
    into.mkdir()
    made = []
    for disk in DISKS:
        links = []
        for number, name in enumerate(names):
            link = into / f"{number}-{disk}.qcow2"
            link.write_bytes((directory(pod, name) / f"b-{disk}.qcow2").read_bytes())
            run("qemu-img", "check", "-q", str(link))
            if links:
                run("qemu-img", "rebase", "-u", "-b", str(links[-1]), "-F", "qcow2", str(link))
            links.append(link)
        made.append(into / f"{disk}.img")
        run("qemu-img", "convert", "-O", "raw", str(links[-1]), str(made[-1]))
    return made


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60)


def manifest(pod: LauncherPod, name: str) -> Any:
    return json.loads((directory(pod, name) / "backup.json").read_text())


def image_bytes(pod: LauncherPod, name: str) -> int:
    return sum(path.stat().st_size for path in directory(pod, name).glob("*.qcow2"))


def test_a_chain_of_a_full_and_incremental_backups_is_the_disks_at_the_last_moment(
    pod: LauncherPod, tmp_path: Path
) -> None:
    in_guest(pod, "dd if=/dev/urandom of=/dev/vdb bs=1M seek=32 count=16 conv=fsync 2>/dev/null", seconds=60)
    full = back_up(pod, "c1")
    assert (full.state, full.message, full.incremental, full.quiesce) == (m.DISK_COPY_COMPLETE, "", False, "GuestAgent")
    assert 0 < full.frozen_ms < 10_000
    assert manifest(pod, "c1")["type"] == "Full"
    assert image_bytes(pod, "c1") > 16 << 20

    # What is now zeros held data, and has to be told from what did not change.
    in_guest(pod, "dd if=/dev/zero of=/dev/vdb bs=1M seek=32 count=4 conv=fsync 2>/dev/null", seconds=60)
    before = number(pod)
    wait_until(lambda: number(pod) > before, "the guest writes on", seconds=30)
    second = back_up(pod, "c2", base="c1", keep=["c1"])
    assert (second.state, second.incremental, second.full_because) == (m.DISK_COPY_COMPLETE, True, "")
    assert image_bytes(pod, "c2") < 12 << 20
    assert manifest(pod, "c2")["since"] == "c1"
    one, two = restore(pod, tmp_path / "second", "c1", "c2")
    assert before <= check_one_moment(one, two) <= number(pod)

    pod.call("Pause")
    try:
        third = back_up(pod, "c3", base="c2", keep=["c2"])
        assert (third.state, third.incremental, third.quiesce) == (m.DISK_COPY_COMPLETE, True, "Paused")
        for disk, made in zip(DISKS, restore(pod, tmp_path / "third", "c1", "c2", "c3"), strict=True):
            found = (each for each in pod.directory.rglob(f"*{disk}*") if each.is_file() and "target" not in each.parts)
            run("qemu-img", "compare", "-U", str(next(found)), str(made))
    finally:
        pod.call("Unpause")


def test_changes_that_nobody_knows_are_told_and_all_is_taken(pod: LauncherPod, tmp_path: Path) -> None:
    found = back_up(pod, "after-loss", base="never", skip_quiesce=True)
    assert (found.state, found.incremental, found.quiesce) == (m.DISK_COPY_COMPLETE, False, "QuiesceSkipped")
    assert "since checkpoint never is not known" in found.full_because
    check_one_moment(*restore(pod, tmp_path / "alone", "after-loss"))


def test_a_guest_that_is_about_to_move_leaves_what_was_noted_behind(pod: LauncherPod) -> None:
    assert back_up(pod, "before-move").state == m.DISK_COPY_COMPLETE
    # Nobody listens where it would go.
    pod.call("Migrate", m.MigrateRequest(migration_uid="m-1"))
    wait_until(lambda: pod.call("GetDomain").outgoing.state == m.OUTGOING_KEPT, "the guest stays", seconds=60)
    found = back_up(pod, "after-move", base="before-move", keep=["before-move"])
    assert (found.state, found.incremental) == (m.DISK_COPY_COMPLETE, False)
    assert "since checkpoint before-move is not known" in found.full_because


def test_a_backup_without_room_fails_and_leaves_the_notes_of_the_one_before(pod: LauncherPod, tmp_path: Path) -> None:
    claim = pod.directory / "public" / "hotplug-disks" / "target"
    assert back_up(pod, "roomy").state == m.DISK_COPY_COMPLETE
    kept = tmp_path / "roomy"
    run("cp", "-r", str(claim / "vm"), str(kept))
    # The launcher sees the same directory: it shares the host's files.
    (claim / "vm" / "late").write_text("in the way")
    failed = back_up(pod, "late", base="roomy", keep=["roomy"])
    assert failed.state == m.DISK_COPY_FAILED
    (claim / "vm" / "late").unlink()
    again = back_up(pod, "later", base="roomy", keep=["roomy"])
    assert (again.state, again.incremental) == (m.DISK_COPY_COMPLETE, True)
    check_one_moment(*restore(pod, tmp_path / "made", "roomy", "later"))


def test_a_launcher_that_is_killed_leaves_no_backup_and_its_successor_goes_on_with_the_notes(
    pod: LauncherPod, tmp_path: Path
) -> None:
    assert back_up(pod, "firm").state == m.DISK_COPY_COMPLETE
    kill(pod.launcher_pid())
    wait_until(lambda: answers(pod), "the next launcher answers", seconds=60)
    again = back_up(pod, "firmer", base="firm", keep=["firm"])
    assert (again.state, again.incremental) == (m.DISK_COPY_COMPLETE, True)
    check_one_moment(*restore(pod, tmp_path / "made", "firm", "firmer"))
