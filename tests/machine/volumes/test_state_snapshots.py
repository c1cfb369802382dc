"""Snapshots on one box have what a VM keeps in its TPM and UEFI variables, of the moment of its disks: taken while it
runs and while it does not, put back into the VM, and into one of its name when it is gone; another VM gets none of it.

The guest makes places in its TPM, sets variables of UEFI and writes to its disk, and tells of all three.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.kube.errors import KubeError, NotFound
from kvedge.resources.disks.state_claims import STATE_CLAIM
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.machine.volumes.sealed_guest import NAME, alike, mark, marks, sealed_vm
from tests.support.box import Box
from tests.support.edits import edit
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import HotplugGuest, a_claim
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900), pytest.mark.incremental]

IMAGE = "local/guest:1"
STATE = "persistent-state-for-this-vm"
FIRST = f"persistent-state-for-{NAME}"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HotplugGuest]:
    """The VM, which has the first mark."""
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.190.0/24", IMAGE, uefi=True) as box:
        box.apply(a_claim("data"))
        box.apply(sealed_vm(IMAGE))
        made = HotplugGuest(box, NAME)
        box.wait_answer(NAME)
        mark(made, 0)
        yield made


def box_of(guest: HotplugGuest) -> Box:
    assert isinstance(guest.box, Box)
    return guest.box


def take(guest: HotplugGuest, name: str) -> VirtualMachineSnapshot:
    box = box_of(guest)
    box.cli("snapshot", "create", NAME, name, "--wait", "--timeout", "200")
    taken = box.client.get(VirtualMachineSnapshot, "default", name)
    assert taken.status.ready_to_use
    assert "PartialSnapshot" not in taken.status.indications
    volumes = taken.status.snapshot_volumes
    assert volumes is not None
    assert (STATE in volumes.included_volumes, STATE in volumes.excluded_volumes) == (True, False)
    return taken


def restart_from(guest: HotplugGuest, snapshot: str) -> None:
    box = box_of(guest)
    box.cli("snapshot", "restore", NAME, snapshot, "--stop", "--wait", "--timeout", "200")
    # One that ran before runs again by itself.
    box.cli("start", NAME, "--wait", "--timeout", "100", check=False)
    box.wait_phase(NAME, "Running")
    box.wait_answer(NAME)


def state_claim(box: Box) -> str:
    return box.vm(NAME).metadata.annotations.get(STATE_CLAIM, "")


def has_claim(box: Box, name: str) -> bool:
    try:
        return box.client.get(PersistentVolumeClaim, "default", name).metadata.deletion_timestamp is None
    except NotFound:
        return False


def test_a_guest_that_runs_comes_back_with_the_state_of_its_snapshot(guest: HotplugGuest) -> None:
    box = box_of(guest)
    assert marks(guest) == alike(0)
    take(guest, "one")
    mark(guest, 1)
    assert marks(guest) == alike(0, 1)
    restart_from(guest, "one")
    assert marks(guest) == alike(0)
    assert state_claim(box).startswith("restore-")
    # The state of before goes, as the disks of before do.
    wait_until(lambda: not has_claim(box, FIRST), "the claim of before goes", 60)
    # What is written from then on stays.
    mark(guest, 2)
    first = guest.vmi().metadata.uid
    box.cli("restart", NAME)
    wait_until(lambda: (vmi := box.vmi(NAME)) and vmi.metadata.uid != first, "another run", 100)
    box.wait_answer(NAME)
    assert marks(guest) == alike(0, 2)


def test_nobody_but_a_restore_says_which_claim_has_the_state(guest: HotplugGuest) -> None:
    box = box_of(guest)
    path = VirtualMachine.KIND.path("default", NAME)

    def say(value: str | None) -> Any:
        def change(vm: Any) -> None:
            vm["metadata"]["annotations"].pop(STATE_CLAIM)
            if value is not None:
                vm["metadata"]["annotations"][STATE_CLAIM] = value

        return change

    for value in ("data", None):
        with pytest.raises(KubeError, match=STATE_CLAIM):
            edit(box.client, path, say(value))


def test_a_vm_that_does_not_run_is_taken_with_its_state(guest: HotplugGuest) -> None:
    box = box_of(guest)
    box.cli("stop", NAME, "--wait", "--timeout", "100")
    take(guest, "off")
    box.cli("start", NAME, "--wait", "--timeout", "200")
    box.wait_answer(NAME)
    mark(guest, 1)
    before = state_claim(box)
    restart_from(guest, "off")
    assert marks(guest) == alike(0, 2)
    wait_until(lambda: not has_claim(box, before), "the claim of before goes", 60)


def test_a_restore_that_was_not_started_yet_can_be_taken_again(guest: HotplugGuest) -> None:
    box = box_of(guest)
    box.cli("stop", NAME, "--wait", "--timeout", "100")
    box.cli("snapshot", "restore", NAME, "one", "--wait", "--timeout", "200")
    take(guest, "again")
    restart_from(guest, "again")
    assert marks(guest) == alike(0)


def test_a_clone_gets_a_tpm_of_its_own_and_a_vm_that_is_gone_its_old_one(guest: HotplugGuest) -> None:
    box = box_of(guest)
    box.cli("stop", NAME, "--wait", "--timeout", "100")
    restore("other", "one", "twin", box)
    twin = box.vm("twin")
    assert STATE_CLAIM not in twin.metadata.annotations
    events = box.client.request("GET", "/api/v1/namespaces/default/events")["items"]
    assert any(each["reason"] == "StateLeftOut" and each["involvedObject"]["name"] == "other" for each in events)
    box.cli("start", "twin", "--wait", "--timeout", "200")
    box.wait_answer("twin")
    assert marks(HotplugGuest(box, "twin")) == ([], [], [0])
    box.cli("delete", "vm", "twin")
    box.cli("delete", "vm", NAME)
    wait_until(lambda: _is_gone(box), "the VM is gone", 100)
    restore("back", "off", NAME, box)
    box.cli("start", NAME, "--wait", "--timeout", "200")
    box.wait_answer(NAME)
    assert marks(guest) == alike(0, 2)


def _is_gone(box: Box) -> bool:
    try:
        box.client.get(VirtualMachine, "default", NAME)
    except NotFound:
        return True
    return False


def restore(name: str, snapshot: str, target: str, box: Box) -> None:
    box.apply(
        {
            "apiVersion": "snapshot.kubevirt.io/v1beta1",
            "kind": "VirtualMachineRestore",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "target": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": target},
                "virtualMachineSnapshotName": snapshot,
            },
        }
    )
    path = f"/apis/snapshot.kubevirt.io/v1beta1/namespaces/default/virtualmachinerestores/{name}"

    def complete() -> Any:
        found = box.client.request("GET", path)
        return (found.get("status") or {}).get("complete")

    wait_until(complete, f"restore {name} is complete", 200)
