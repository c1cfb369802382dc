"""Which volumes of a VM are carried to its run, and which changes wait for a restart."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vm.vm_actions import ChangeRun, Hotplug, Live, PatchVmStatus
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vm.vmi_template import needs_restart, template_hash
from kvedge.controller.vm.volume_changes import plan_volumes
from kvedge.resources.codec import decode
from kvedge.resources.names import TEMPLATE_HASH, VM_GENERATION
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import ClaimInfo, HotplugVolumeStatus, VirtualMachineInstance, VolumeStatus
from kvedge.resources.types.volumes import Volume
from tests.support.builders import NOW, a_vm, a_vmi

ROOT = ({"name": "root", "emptyDisk": {"capacity": "1Gi"}}, {"name": "root", "disk": {"bus": "virtio"}})


def hot(name: str, claim: str = "", **disk: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    volume = {"name": name, "persistentVolumeClaim": {"claimName": claim or name, "hotpluggable": True}}
    return volume, {"name": name, **(disk or {"disk": {"bus": "scsi"}})}


def a_pair(
    wanted: list[tuple[dict[str, Any], dict[str, Any]]], there: list[tuple[dict[str, Any], dict[str, Any]]]
) -> tuple[VirtualMachine, VirtualMachineInstance]:
    """A VM with these volumes and disks, and its run that was started with others."""
    vm = a_vm()
    vmi = a_vmi(owner=vm)
    for spec, pairs in ((vm.spec.template.spec if vm.spec.template else vmi.spec, wanted), (vmi.spec, there)):
        spec.volumes = [decode(Volume, volume) for volume, _ in pairs if volume]
        spec.domain.devices.disks = [decode(Disk, disk) for _, disk in pairs if disk]
    return vm, vmi


def carried(vm: VirtualMachine, vmi: VirtualMachineInstance) -> tuple[list[str], list[str]] | None:
    """The names of the run's volumes and disks after the change; None without one."""
    body = plan_volumes(vm, vmi)
    if not body:
        return None
    spec = body["spec"]
    kept = [disk.name for disk in vmi.spec.domain.devices.disks]
    disks = spec.get("domain", {}).get("devices", {}).get("disks")
    return [volume["name"] for volume in spec["volumes"]], (kept if disks is None else [disk["name"] for disk in disks])


def entry(name: str, claim: str) -> VolumeStatus:
    return VolumeStatus(
        name=name,
        target="sda",
        phase="Ready",
        persistent_volume_claim_info=ClaimInfo(claim_name=claim),
        hotplug_volume=HotplugVolumeStatus(),
    )


def test_new_volumes_come_with_their_disks_and_old_ones_go_with_theirs() -> None:
    assert carried(*a_pair([ROOT, hot("a"), hot("b")], [ROOT])) == (["root", "a", "b"], ["root", "a", "b"])
    assert carried(*a_pair([ROOT, hot("b")], [ROOT, hot("a"), hot("b")])) == (["root", "b"], ["root", "b"])
    assert carried(*a_pair([ROOT, hot("a")], [ROOT, hot("a")])) is None


def test_a_swapped_volume_goes_first_and_comes_back_when_everything_is_undone() -> None:
    vm, vmi = a_pair([hot("a", "new")], [hot("a", "old")])
    vmi.status.volume_status = [entry("a", "old")]
    assert carried(vm, vmi) == ([], [])
    vmi.spec.volumes, vmi.spec.domain.devices.disks = [], []
    assert carried(vm, vmi) is None
    vmi.status.volume_status = []
    assert carried(vm, vmi) == (["a"], ["a"])


@pytest.mark.parametrize("claim", ["a", "another"])
def test_a_volume_that_is_no_longer_hotpluggable_stays_until_a_restart(claim: str) -> None:
    volume, _ = hot("a", claim)
    del volume["persistentVolumeClaim"]["hotpluggable"]
    vm, vmi = a_pair([hot("a")], [hot("a")])
    vm.metadata.generation = 2
    vmi.metadata.annotations = {TEMPLATE_HASH: template_hash(vm), VM_GENERATION: "1"}
    assert not needs_restart(vm, vmi)
    assert vm.spec.template is not None
    vm.spec.template.spec.volumes = [decode(Volume, volume)]
    assert carried(vm, vmi) is None
    assert needs_restart(vm, vmi)


def test_a_drive_stays_when_its_medium_goes_and_takes_the_next_one() -> None:
    full, drive = hot("cd", cdrom={"bus": "sata"})
    assert carried(*a_pair([({}, drive)], [(full, drive)])) == ([], ["cd"])
    assert carried(*a_pair([(full, drive)], [({}, drive)])) == (["cd"], ["cd"])
    assert carried(*a_pair([(full, drive)], [])) is None


@pytest.mark.parametrize("phase", ["Scheduled", "Succeeded"])
def test_only_a_run_that_runs_is_changed(phase: Any) -> None:
    vm, vmi = a_pair([hot("a")], [])
    vmi.status.phase = phase
    assert carried(vm, vmi) is None


def started_from(vm: VirtualMachine, vmi: VirtualMachineInstance, wanted: VirtualMachine) -> bool:
    """Whether the run that was started from `vm` needs a restart, now that the VM is `wanted`."""
    vmi.metadata.annotations = {TEMPLATE_HASH: template_hash(vm), VM_GENERATION: "0"}
    return needs_restart(wanted, vmi)


DRIVE = ({}, {"name": "cd", "cdrom": {"bus": "sata"}})
OTHER_ROOT = ({"name": "root", "emptyDisk": {"capacity": "2Gi"}}, ROOT[1])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([ROOT], [ROOT, hot("a")], False),
        ([ROOT, hot("a")], [ROOT], False),
        ([ROOT, hot("a", "old")], [ROOT, hot("a", "new")], False),
        ([DRIVE], [hot("cd", cdrom={"bus": "sata"})], False),
        ([ROOT], [OTHER_ROOT], True),
        ([ROOT], [ROOT, DRIVE], True),
        ([DRIVE], [], True),
        ([hot("a")], [hot("a", disk={"bus": "virtio"})], True),
    ],
    ids=[
        "added",
        "removed",
        "swapped",
        "a medium",
        "a permanent volume",
        "a new drive",
        "a drive removed",
        "another bus for a disk that is there",
    ],
)
def test_only_what_stays_for_a_whole_run_asks_for_a_restart(before: Any, after: Any, *, expected: bool) -> None:
    vm, vmi = a_pair(before, before)
    wanted, _ = a_pair(after, before)
    assert started_from(vm, vmi, wanted) is expected


def test_the_plan_carries_volumes_and_tells_what_was_refused() -> None:
    vm, vmi = a_pair([hot("a")], [])
    assert any(isinstance(action, ChangeRun) for action in plan_vm(vm, vmi, NOW, 0.5).actions)
    refused = plan_vm(vm, vmi, NOW, 0.5, Hotplug(refusals={Live.VOLUMES: "no"})).actions
    (status,) = (action for action in refused if isinstance(action, PatchVmStatus))
    failure = next(each for each in status.body["status"]["conditions"] if each["type"] == "Failure")
    assert (failure["reason"], failure["message"]) == ("HotPlugVolumeError", "no")
    off = plan_vm(vm, vmi, NOW, 0.5, Hotplug(is_on=False)).actions
    assert not [action for action in (*refused, *off) if isinstance(action, ChangeRun)]


def test_volumes_wait_while_the_guest_moves() -> None:
    vm, vmi = a_pair([hot("a")], [])
    vmi.status.migration_state = MigrationState(migration_uid="m")
    assert not [action for action in plan_vm(vm, vmi, NOW, 0.5).actions if isinstance(action, ChangeRun)]
    vmi.status.migration_state.completed = True
    assert [action for action in plan_vm(vm, vmi, NOW, 0.5).actions if isinstance(action, ChangeRun)]
