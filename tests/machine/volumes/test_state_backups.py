"""A VM that is gone comes back from a backup with its TPM and its UEFI variables, of the moment of its disks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kvedge.kube.errors import NotFound
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.vm import VirtualMachine
from tests.machine.volumes.sealed_guest import NAME, alike, mark, marks, sealed_vm
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import HotplugGuest, a_claim
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic: apt install restic"),
]

IMAGE = "local/guest:1"


def make_store(box: Box, place: Path) -> None:
    """A repository in a directory of the host."""
    place.mkdir()
    # A guest's user gets as far as this directory.
    for above in (place, *place.parents):
        if above.stat().st_uid == 0 and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    os.chown(place, LAUNCHER_UID, LAUNCHER_GID)
    key = place.with_name("key")
    key.write_text("a key that the site holds")
    box.cli("backup", "add-repository", "usb", "--directory", str(place), "--password-file", str(key))


def is_gone(box: Box) -> bool:
    try:
        box.client.get(VirtualMachine, "default", NAME)
    except NotFound:
        return True
    return False


def test_a_vm_comes_back_with_its_tpm(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    with guest_box(tmp_path / "box", "10.98.190.0/24", IMAGE, uefi=True) as box:
        make_store(box, tmp_path / "store")
        box.apply(a_claim("data"))
        box.apply(sealed_vm(IMAGE))
        guest = HotplugGuest(box, NAME)
        box.wait_answer(NAME)
        mark(guest, 0)
        box.cli("backup", "create", NAME, "--to", "usb", "--wait", "--timeout", "200")
        mark(guest, 1)
        box.cli("delete", "vm", NAME)
        wait_until(lambda: is_gone(box), "the VM is gone", 100)
        box.cli("backup", "restore", NAME, "--from", "usb", "--wait", "--timeout", "200")
        box.cli("start", NAME, "--wait", "--timeout", "100")
        box.wait_answer(NAME)
        assert marks(guest) == alike(0)
