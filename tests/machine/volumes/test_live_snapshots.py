"""Snapshots of a VM that runs on one box: one moment of all its disks, and a guest that goes on whatever happens.

The guest writes numbered blocks to its disks in turn, all the time, so that the copies tell of the moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.storage.arriving_mark import ARRIVING
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.numbered_writes import check_one_moment, writer_script
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(500)]

IMAGE = "local/guest:1"
NAME = "writer"
FILES = ("one", "two")
DEVICE = "three"
GROUP = "kubevirt.io"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HotplugGuest]:
    """The VM, which writes."""
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.71.0/24", IMAGE, agent=True) as box:
        for name in FILES:
            box.apply(a_claim(name))
        box.apply(a_claim(DEVICE, volumeMode="Block"))
        box.apply(writing_vm())
        made = HotplugGuest(box, NAME)
        box.wait_answer(NAME)
        wait_until(lambda: has_agent(made), "the agent is there", seconds=90)
        made.run(writer_script(*(made.disk(name) for name in (*FILES, DEVICE))))
        wait_until(lambda: number(made) > 3, "the guest writes", seconds=60)
        yield made


def writing_vm() -> JsonObject:
    made = hotplug_vm(NAME, IMAGE)
    spec: Any = made["spec"]["template"]["spec"]
    for name in (*FILES, DEVICE):
        spec["domain"]["devices"]["disks"].append({"name": name, "disk": {"bus": "virtio"}, "serial": name})
        spec["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": name}})
    return made


def has_agent(guest: HotplugGuest) -> bool:
    return any(each.type == "AgentConnected" and each.status == "True" for each in guest.vmi().status.conditions)


def number(guest: HotplugGuest) -> int:
    """The last block that the guest knows to be on all disks."""
    return int(guest.run("cat /run/number 2>/dev/null || echo 0"))


def writes_on(guest: HotplugGuest) -> None:
    before = number(guest)
    wait_until(lambda: number(guest) > before, "the guest writes on", seconds=30)
    vmi = guest.vmi()
    assert vmi.status.fs_freeze_status == ""
    assert not any(each.type == "Paused" for each in vmi.status.conditions)


def ask(guest: HotplugGuest, name: str, **spec: Any) -> None:
    source = {"apiGroup": GROUP, "kind": "VirtualMachine", "name": NAME}
    guest.box.apply(
        {
            "apiVersion": "snapshot.kubevirt.io/v1beta1",
            "kind": "VirtualMachineSnapshot",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"source": source, **spec},
        }
    )


def snapshot(guest: HotplugGuest, name: str) -> VirtualMachineSnapshot:
    return guest.box.client.get(VirtualMachineSnapshot, "default", name)


def ended(guest: HotplugGuest, name: str, seconds: float = 120) -> VirtualMachineSnapshot:
    def over() -> VirtualMachineSnapshot | None:
        found = snapshot(guest, name)
        return found if found.is_final else None

    return wait_until(over, f"snapshot {name} is over", seconds=seconds)


def place_of(guest: HotplugGuest, claim: str) -> Path:
    """Where the disk of a claim is on the host."""
    found = guest.box.client.get(PersistentVolumeClaim, "default", claim)
    volume = guest.box.client.request("GET", PersistentVolume.KIND.path("", found.spec.volume_name))
    path = Path((volume["spec"].get("local") or volume["spec"].get("hostPath"))["path"])
    return path if found.is_block else path / "disk.img"


def leaves_nothing(guest: HotplugGuest) -> bool:
    """The VM is let go, the launcher has nothing of a copy, and no claim of one is attached."""
    vm, vmi = guest.box.vm(NAME), guest.vmi()
    if vm.status.snapshot_in_progress or vmi.spec.utility_volumes or vmi.status.disk_copy is not None:
        return False
    if any("-copy-" in entry.name for entry in vmi.status.volume_status):
        return False
    found = [*guest.box.data_dir.rglob("copy-scratch"), *guest.box.data_dir.rglob("copy.sock")]
    return not found


def test_a_snapshot_is_one_moment_of_all_disks_and_is_restored_beside_the_vm_that_runs(guest: HotplugGuest) -> None:
    before = number(guest)
    ask(guest, "first")
    taken = ended(guest, "first")
    after = number(guest)
    assert taken.status.phase == "Succeeded", taken.status
    assert taken.status.ready_to_use
    assert taken.status.indications == ["Online", "GuestAgent"]
    assert taken.status.snapshot_volumes is not None
    assert set(taken.status.snapshot_volumes.included_volumes) == {*FILES, DEVICE}
    copies = [place_of(guest, f"vmsnapshot-{taken.metadata.uid}-volume-{name}") for name in (*FILES, DEVICE)]
    moment = check_one_moment(*copies[:2])
    check_one_moment(copies[1], copies[2])
    assert before <= moment <= after
    assert not list(copies[0].parent.glob(ARRIVING))
    assert copies[0].stat().st_blocks * 512 < 16 << 20
    wait_until(lambda: leaves_nothing(guest), "nothing is left of the copy", seconds=30)
    writes_on(guest)
    restored = restore(guest, "first", "other")
    images = [place_of(guest, restored[name]) for name in (*FILES, DEVICE)]
    assert check_one_moment(*images[:2]) == moment
    check_one_moment(images[1], images[2])


def restore(guest: HotplugGuest, name: str, target: str) -> dict[str, str]:
    """Put a snapshot into another VM; its claims, by volume."""
    guest.box.apply(
        {
            "apiVersion": "snapshot.kubevirt.io/v1beta1",
            "kind": "VirtualMachineRestore",
            "metadata": {"name": target, "namespace": "default"},
            "spec": {
                "target": {"apiGroup": GROUP, "kind": "VirtualMachine", "name": target},
                "virtualMachineSnapshotName": name,
            },
        }
    )

    def done() -> VirtualMachineRestore | None:
        found = guest.box.client.get(VirtualMachineRestore, "default", target)
        assert not found.has_failed, found.status
        return found if found.status.complete else None

    made = wait_until(done, "the restore is complete", seconds=120)
    return {each.volume_name: each.persistent_volume_claim for each in made.status.restores}
