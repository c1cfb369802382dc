"""A VM runs from its backup while its disk comes back: restic, guest and box are real, and what can be killed is."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.protection.backups import BackupRestore
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from tests.machine.volumes.test_launched_disks import console
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic: apt install restic"),
]

IMAGE = "local/guest:1"
KEY = "a key that the site holds"
MIB = 1 << 20
# So much takes a while to come back.
SIZE = 4 << 30
# What was kept tells the first run from those of the restored disk, which write one block after the other: all over the
# disk, in blocks that are there and in blocks that are not. A number is told when its block is on the disk.
WRITER = """#!/bin/sh
if ! dd if=/dev/vda bs=1M skip=200 count=1 2>/dev/null | grep -q "kept by the guest"; then
    echo "kept by the guest" | dd of=/dev/vda bs=1M seek=200 conv=sync,fsync,notrunc 2>/dev/null
    dd if=/dev/urandom of=/dev/vda bs=1M seek=300 count=200 conv=fsync,notrunc 2>/dev/null
    echo "kept it now" >/dev/ttyS0
    exit
fi
echo "found what was kept" >/dev/ttyS0
n=0
while [ $n -lt 2000 ]; do
    place=$((250 + (n * 37) % 3800))
    echo "number $n" | dd of=/dev/vda bs=4k seek=$((place * 256)) count=1 conv=sync,fsync,notrunc 2>/dev/null
    echo "wrote $n." >/dev/ttyS0
    n=$((n + 1))
done
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.78.0/24", IMAGE) as found:
        yield found


@pytest.fixture(scope="module")
def store(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a backup of a VM that has written to its disk."""
    place = tmp_path_factory.mktemp("store")
    for above in (place, *place.parents):
        if above.stat().st_uid == 0 and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    os.chown(place, LAUNCHER_UID, LAUNCHER_GID)
    key = place.with_name("key")
    key.write_text(KEY)
    box.cli("backup", "add-repository", "usb", "--directory", str(place), "--password-file", str(key))
    (place.parent / "user-data").write_text(WRITER)
    launched = ("--disk", "4Gi", "--memory", "128Mi", "--user-data", str(place.parent / "user-data"))
    box.cli("launch", IMAGE, "shop", *launched, "--wait", "--timeout", "100")
    wait_until(lambda: "kept it now" in console(box, "shop"), "the guest has written", 120)
    box.cli("stop", "shop", "--wait", "--timeout", "60")
    box.cli("backup", "create", "shop", "--to", "usb", "--wait", "--timeout", "300")
    return place


@contextmanager
def slowed(box: Box) -> Iterator[None]:
    """Have restic stand most of the time: what it gives comes as slowly as over a long line."""
    over = threading.Event()

    def brake() -> None:
        while not over.is_set():
            for number, pause in ((signal.SIGSTOP, 0.4), (signal.SIGCONT, 0.1)):
                for pid in readers(box):
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
                over.wait(pause)

    thread = threading.Thread(target=brake)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for pid in readers(box):
            os.kill(pid, signal.SIGCONT)


def test_a_guest_boots_from_its_backup_and_keeps_all_it_writes(box: Box, store: Path) -> None:
    with slowed(box):
        asked = ("backup", "restore", "shop", "--from", "usb", "--as", "live", "--live")
        told = box.cli(*asked, "--wait", "--timeout", "100")
        assert told.stdout.splitlines()[-1] == "VM live runs from its backup; its disks are copied behind"
        box.wait_phase("live", "Running")
        wait_until(lambda: "found what was kept" in console(box, "live"), "the guest reads its backup", 200)
        wait_until(lambda: last_number(box, "live") >= 5, "it writes", 60)
        assert not (place_of(box, "live") / "disk.img").exists()
        assert restore_of(box, "live").status.phase == "Running"
        os.kill(worker_pid(box), signal.SIGKILL)
    before = last_number(box, "live")
    wait_until(lambda: last_number(box, "live") >= before + 20, "the guest goes on with another worker", 120)
    wait_until(lambda: restore_of(box, "live").status.progress == "100.00%", "all is there", 200)
    assert_is_whole(box, store, "live")


def test_a_place_that_is_away_and_a_killed_guest_change_nothing(box: Box, store: Path) -> None:
    box.cli("backup", "restore", "shop", "--from", "usb", "--as", "away", "--live", "--wait", "--timeout", "100")
    packs, elsewhere = store / "kvedge" / "data", store / "kvedge" / "data-elsewhere"
    with slowed(box):
        wait_until(lambda: last_number(box, "away") >= 1, "it writes", 300)
        packs.rename(elsewhere)
    try:
        wait_until(
            lambda: "stands where it needs what is not there yet" in restore_of(box, "away").status.message,
            "the restore says what is wrong",
            60,
        )
        assert not (place_of(box, "away") / "disk.img").exists()
        snapshot = {
            "apiVersion": "snapshot.kubevirt.io/v1beta1",
            "kind": "VirtualMachineSnapshot",
            "metadata": {"name": "early", "namespace": "default"},
            "spec": {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "away"}},
        }
        box.apply(snapshot)
        wait_until(
            lambda: any(
                "still comes back from its backup" in each.reason
                for each in box.client.get(VirtualMachineSnapshot, "default", "early").status.conditions
            ),
            "a snapshot waits, and says for what",
            60,
        )
        box.client.delete(VirtualMachineSnapshot, "default", "early")
        vmi = box.vmi("away")
        assert vmi is not None
        before = last_number(box, "away")
        for pid in box.qemu_pids(vmi.metadata.uid):
            os.kill(pid, signal.SIGKILL)
    finally:
        elsewhere.rename(packs)
    wait_until(lambda: (now := box.vmi("away")) and now.metadata.uid != vmi.metadata.uid, "it starts again", 120)
    wait_until(lambda: last_number(box, "away") > 5, "the next run goes on with the same disk", 200)
    wait_until(lambda: restore_of(box, "away").status.progress == "100.00%", "all is there", 200)
    assert_is_whole(box, store, "away", before)


def assert_is_whole(box: Box, store: Path, name: str, before: int = -1) -> None:
    """The disk is the backup with what the guest was told is written, also the run `before`."""
    last = max(before, last_number(box, name))
    assert last > 5
    box.cli("stop", name, "--force", "--grace-period", "0", "--wait", "--timeout", "60")
    wait_until(lambda: restore_of(box, name).status.phase == "Succeeded", "nobody needs the worker", 100)
    numbers = {250 + (n * 37) % 3800: n for n in range(2000)}
    told = 0
    with dumped(store) as was, (place_of(box, name) / "disk.img").open("rb") as found:
        assert was.stdout is not None
        for number in range(SIZE // MIB):
            block, there = was.stdout.read(MIB), found.read(MIB)
            written = f"number {numbers[number]}\n".encode().ljust(4096, b"\0") if number in numbers else b""
            if number in numbers and numbers[number] <= last:
                told += 1
                assert there == written + block[4096:], f"block {number}"
            else:
                # Of what nobody was told the guest may have written more.
                assert there in (block, written + block[len(written) :]), f"block {number}"
        assert found.read(1) == b""
    assert told == last + 1


def restore_of(box: Box, vm: str) -> BackupRestore:
    (found,) = [each for each in box.client.list(BackupRestore, "default") if each.spec.target_name == vm]
    return found


def last_number(box: Box, name: str) -> int:
    found = re.findall(r"wrote (\d+)\.", console(box, name))
    return int(found[-1]) if found else -1


def worker_pid(box: Box) -> int:
    """The worker of this box that serves a disk."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"backup-worker" in words and str(box.data_dir) in (process / "mountinfo").read_text():
                    return int(process.name)
            except OSError:
                continue
    raise AssertionError("no worker")


def readers(box: Box) -> list[int]:
    """What reads the repository for that worker."""
    try:
        children = Path(f"/proc/{(pid := worker_pid(box))}/task/{pid}/children").read_text().split()
        return [int(each) for each in children if b"mount" in Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")]
    except (OSError, AssertionError):
        return []


def place_of(box: Box, name: str) -> Path:
    """The directory of the restored claim."""
    claim = box.client.get(PersistentVolumeClaim, "default", restore_of(box, name).status.volumes[0].claim_name)
    volume = box.client.get(PersistentVolume, "", claim.spec.volume_name)
    assert volume.spec.local is not None
    return Path(volume.spec.local.path)


def dumped(store: Path) -> subprocess.Popen[bytes]:
    """The disk in the backup."""
    environment = {**os.environ, "RESTIC_PASSWORD": KEY}
    restic = ["restic", "-r", str(store / "kvedge"), "--no-cache", "--no-lock"]
    text = subprocess.run([*restic, "snapshots", "--json"], env=environment, capture_output=True, check=True).stdout
    (disk,) = [each for each in json.loads(text) if any(tag.startswith("volume=") for tag in each["tags"])]
    (path,) = disk["paths"]
    return subprocess.Popen([*restic, "dump", disk["id"], path], env=environment, stdout=subprocess.PIPE)
