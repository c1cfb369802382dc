"""A VM goes into a repository outside its box and comes back on another one: restic, guests and boxes are real."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from tests.machine.volumes.test_launched_disks import KEEPER, console
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


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.77.0/24", IMAGE) as found:
        yield found


@pytest.fixture(scope="module")
def store(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the box has a repository in; another one would find it by the key."""
    place = tmp_path_factory.mktemp("store")
    # A guest's user gets as far as this directory.
    for above in (place, *place.parents):
        if above.stat().st_uid == 0 and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    os.chown(place, LAUNCHER_UID, LAUNCHER_GID)
    key = place.with_name("key")
    key.write_text(KEY)
    told = box.cli("backup", "add-repository", "usb", "--directory", str(place), "--password-file", str(key)).stdout
    assert told == "repository usb created\n"
    return place


def restic(store: Path, *words: str) -> str:
    environment = {**os.environ, "RESTIC_PASSWORD": KEY}
    command = ["restic", "-r", str(store / "kvedge"), "--no-cache", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_running_vm_goes_away_and_comes_back_beside_itself(box: Box, store: Path, tmp_path: Path) -> None:
    (tmp_path / "user-data").write_text(KEEPER)
    launched = ("--disk", "256Mi", "--memory", "128Mi", "--user-data", str(tmp_path / "user-data"))
    box.cli("launch", IMAGE, "shop", *launched, "--wait", "--timeout", "100")
    wait_until(lambda: "kept it now" in console(box, "shop"), "the guest has written", 120)

    told = box.cli("backup", "create", "shop", "--to", "usb", "--wait", "--timeout", "200").stdout.splitlines()
    backup = told[-1].rpartition(" ")[2]
    run = box.client.list(BackupRun, "default")[0]
    assert (run.status.phase, run.status.backup_id, run.status.size) == ("Succeeded", backup, 256 << 20)
    vmi = box.vmi("shop")
    assert vmi is not None
    assert vmi.status.phase == "Running"
    wait_until(lambda: box.client.list(VirtualMachineSnapshot, "default") == [], "the snapshot goes", 60)
    # What is kept is encrypted, whole, and complete by its record.
    assert "no errors were found" in restic(store, "check", "--read-data")
    assert f"id={backup}" in restic(store, "snapshots", "--tag", "record")
    assert not any(b"kept it" in file.read_bytes() for file in store.rglob("*") if file.is_file())

    # The same disk again costs next to nothing.
    box.cli("backup", "create", "shop", "--to", "usb", "--wait", "--timeout", "200")
    again = max(box.client.list(BackupRun, "default"), key=lambda each: each.metadata.creation_timestamp or "")
    assert again.status.added is not None
    assert again.status.added < 4 << 20

    asked = ("backup", "restore", "shop", "--from", "usb", "--id", backup, "--as", "shop2")
    told = box.cli(*asked, "--wait", "--timeout", "200").stdout.splitlines()
    assert told[-1] == "VM shop2 is back; it does not run: kvedge start shop2"
    box.cli("start", "shop2", "--wait", "--timeout", "100")
    wait_until(lambda: "found what was kept" in console(box, "shop2"), "the disk is the old one", 120)


def test_a_schedule_keeps_one_reads_it_back_and_lists_what_is_there(box: Box, store: Path) -> None:
    """The two backups by hand are the VM's too: of these and the schedule's, one stays."""
    box.cli("backup", "schedule", "shop", "--to", "usb", "--every", "1d", "--keep-last", "1")
    wait_until(lambda: task_of(box, "Prune").status.phase == "Succeeded", "old backups have gone", 120)
    schedule = box.client.get(BackupSchedule, "default", "shop")
    kept = schedule.status.vms[0].last_backup_id
    pruned = task_of(box, "Prune").status
    assert (pruned.removed, pruned.kept) == (2, 1)
    assert schedule.status.next_schedule_time is not None
    told = box.cli("backup", "verify", "usb", "--full", "--wait", "--timeout", "100").stdout.splitlines()
    assert told[-1] == "repository usb: all of the repository was read back and is whole"
    rows = box.cli("backup", "list", "--from", "usb").stdout.splitlines()
    assert len(rows) == 2
    assert {"default", "shop", kept, "256", "yes"} <= set(rows[1].split())
    assert "shop" in box.cli("backup", "schedules").stdout
    box.cli("backup", "unschedule", "shop")


def task_of(box: Box, action: str) -> BackupTask:
    found = [each for each in box.client.list(BackupTask, "default") if each.spec.action == action]
    return found[0] if found else BackupTask()


def test_a_vm_that_is_there_is_not_written_over(box: Box, store: Path) -> None:
    done = box.cli("backup", "restore", "shop", "--from", "usb", "--wait", "--timeout", "60", check=False)
    assert done.returncode != 0
    assert "VM shop exists" in done.stderr


def test_a_wrong_key_and_an_absent_backup_say_so(box: Box, store: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("another key")
    claim = ("--claim", "usb-backups")
    box.cli("backup", "add-repository", "wrong", *claim, "--password-file", str(tmp_path / "other"))
    done = box.cli(
        "backup", "restore", "shop", "--from", "wrong", "--as", "x1", "--wait", "--timeout", "100", check=False
    )
    assert "wrong password" in done.stderr
    done = box.cli("backup", "restore", "nobody", "--from", "usb", "--wait", "--timeout", "100", check=False)
    assert "has no complete backup of VM default/nobody" in done.stderr
    assert {each.status.phase for each in box.client.list(BackupRestore, "default")} == {"Succeeded", "Failed"}


def test_a_damaged_repository_gives_no_vm(box: Box, store: Path) -> None:
    packs = sorted(
        (store / "kvedge" / "data").rglob("*"), key=lambda each: each.stat().st_size if each.is_file() else 0
    )
    largest = packs[-1]
    largest.chmod(0o600)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    largest.write_bytes(bytes(content))
    asked = ("backup", "restore", "shop", "--from", "usb", "--as", "broken")
    done = box.cli(*asked, "--wait", "--timeout", "60", check=False)
    assert done.returncode != 0
    assert "broken" not in box.cli("get", "vm", "-o", "name").stdout
