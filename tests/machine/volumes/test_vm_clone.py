"""A stopped VM becomes two on one box: the twin boots beside its source, with what the source's guest has written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from tests.machine.volumes.test_launched_disks import KEEPER, console, images
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/guest:1"
ADDRESS = "cat /sys/class/net/eth0/address | sed 's/^/address /' >/dev/ttyS0\n"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.75.0/24", IMAGE) as found:
        yield found


def test_a_stopped_vm_gets_a_twin_that_boots_beside_it(box: Box, tmp_path: Path) -> None:
    (tmp_path / "user-data").write_text(KEEPER + ADDRESS)
    launched = ("--disk", "256Mi", "--memory", "128Mi", "--user-data", str(tmp_path / "user-data"))
    box.cli("launch", IMAGE, "first", *launched, "--wait", "--timeout", "100")
    wait_until(lambda: "kept it now" in console(box, "first"), "the guest has written", 120)
    box.cli("stop", "first", "--wait", "--timeout", "100")
    told = box.cli("clone", "first", "twin", "--wait", "--timeout", "100").stdout
    assert told.splitlines()[-1] == "VM twin is there: `kvedge start twin` starts it"
    assert box.cli("clone", "first", "twin", check=False).returncode == 1

    box.cli("start", "first", "--wait", "--timeout", "100")
    box.cli("start", "twin", "--wait", "--timeout", "100")
    for name in ("first", "twin"):
        wait_until(lambda name=name: "found what was kept" in console(box, name), f"{name} finds it", 120)
        wait_until(lambda name=name: "address " in console(box, name), f"{name} says its address", 60)
    first, twin = box.vmi("first"), box.vmi("twin")
    assert first is not None
    assert twin is not None
    assert (first.status.phase, twin.status.phase) == ("Running", "Running")
    # cloud-init's instance-id is that of the firmware.
    uuids = {vmi.spec.domain.firmware.uuid for vmi in (first, twin) if vmi.spec.domain.firmware is not None}
    assert len(uuids) == 2
    assert "" not in uuids
    addresses = {console(box, name).partition("address ")[2][:17] for name in ("first", "twin")}
    assert len(addresses) == 2

    # What it was made with is gone, and the twin lives on without its source.
    wait_until(lambda: box.client.list(VirtualMachineSnapshot, "default") == [], "the snapshot goes", 60)
    wait_until(lambda: box.client.list(VirtualMachineRestore, "default") == [], "the restore goes", 60)
    wait_until(lambda: len(images(box)) == 2, "the copy in between goes", 60)
    box.cli("delete", "vm", "first")
    wait_until(lambda: len(images(box)) == 1, "the disk goes with its VM", 60)
    box.cli("restart", "twin", "--wait", "--timeout", "100")
    wait_until(lambda: "found what was kept" in console(box, "twin"), "the twin has a disk of its own", 120)
    box.cli("delete", "vm", "twin")
    wait_until(lambda: box.client.list(VirtualMachineClone, "default") == [], "the clone goes with its VM", 60)
    wait_until(lambda: images(box) == [], "its disk goes", 60)
