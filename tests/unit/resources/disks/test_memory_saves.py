"""Guests with state beyond memory and disks are refused by the field that has it."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.disks.memory_saves import find_memory_fault
from kvedge.resources.types.vmi import (
    HotplugVolumeStatus,
    MemoryStatus,
    TopologyHints,
    VirtualMachineInstance,
    VolumeStatus,
)
from tests.support.builders import small_vmi

CLAIM = {"name": "root", "persistentVolumeClaim": {"claimName": "web"}}
DISK = {"name": "root", "disk": {"bus": "virtio"}}


def a_run(devices: Any = None, volumes: Any = None, **domain: Any) -> VirtualMachineInstance:
    made = small_vmi(volumes=volumes or [CLAIM])
    made["spec"]["domain"] = {"devices": {"disks": [DISK], **(devices or {})}, **domain}
    return decode(VirtualMachineInstance, {**made, "status": {"phase": "Running"}})


def fault(vmi: VirtualMachineInstance | None) -> str:
    return find_memory_fault("web", vmi)


def test_a_guest_with_its_disks_on_claims_and_a_seed_is_saved() -> None:
    seed = {"name": "seed", "cloudInitNoCloud": {"userData": "x"}}
    disks = [DISK, {"name": "seed", "disk": {}}]
    assert fault(a_run({"disks": disks, "interfaces": [{"name": "default", "masquerade": {}}]}, [CLAIM, seed])) == ""


def test_a_vm_that_is_stopped_has_none() -> None:
    assert "does not run and has no memory" in fault(None)


@pytest.mark.parametrize(
    ("devices", "field"),
    [
        ({"hostDevices": [{"name": "a", "deviceName": "a/b"}]}, "spec.domain.devices.hostDevices"),
        ({"gpus": [{"name": "a", "deviceName": "a/b"}]}, "spec.domain.devices.gpus"),
        ({"filesystems": [{"name": "a", "virtiofs": {}}]}, "spec.domain.devices.filesystems"),
        ({"tpm": {}}, "spec.domain.devices.tpm"),
        ({"autoattachVSOCK": True}, "spec.domain.devices.autoattachVSOCK"),
        ({"interfaces": [{"name": "a", "sriov": {}}]}, "spec.domain.devices.interfaces[a].sriov"),
        ({"interfaces": [{"name": "a", "passt": {}}]}, "spec.domain.devices.interfaces[a].passt"),
        ({"interfaces": [{"name": "a", "passtBinding": {}}]}, "spec.domain.devices.interfaces[a].passtBinding"),
        ({"interfaces": [{"name": "a", "binding": {"name": "b"}}]}, "spec.domain.devices.interfaces[a].binding.b"),
        ({"disks": [{"name": "root", "lun": {}}]}, "disk root: a LUN"),
        ({"disks": [{**DISK, "shareable": True}]}, "disk root: a shareable disk"),
    ],
)
def test_devices_with_state_of_their_own_are_refused_by_name(devices: Any, field: str) -> None:
    said = fault(a_run(devices))
    assert said.startswith(field)
    assert said.endswith("take the snapshot without memory")


@pytest.mark.parametrize(
    ("domain", "field"),
    [
        ({"launchSecurity": {"sev": {}}}, "spec.domain.launchSecurity"),
        (
            {"firmware": {"bootloader": {"efi": {"persistent": True}}}},
            "spec.domain.firmware.bootloader.efi.persistent",
        ),
    ],
)
def test_what_the_snapshot_does_not_hold_is_refused(domain: Any, field: str) -> None:
    assert fault(a_run(**domain)).startswith(field)


@pytest.mark.parametrize(
    "source",
    [
        {"containerDisk": {"image": "a:1"}},
        {"emptyDisk": {"capacity": "1Mi"}},
        {"hostDisk": {"path": "/a", "type": "Disk"}},
        {"ephemeral": {"persistentVolumeClaim": {"claimName": "a"}}},
    ],
)
def test_disks_that_the_next_start_makes_anew_are_refused(source: Any) -> None:
    assert fault(a_run(volumes=[{"name": "root", **source}])).startswith("volume root: it is not in the snapshot")


def test_what_was_changed_while_it_runs_is_refused() -> None:
    vmi = a_run()
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="2Gi")
    assert fault(vmi).startswith("spec.domain.memory.guest")
    vmi = a_run()
    vmi.status.volume_status = [VolumeStatus(name="root", target="sda", hotplug_volume=HotplugVolumeStatus())]
    assert fault(vmi).startswith("volume root: it was plugged into the running guest")


def test_a_guest_that_was_told_no_frequency_is_refused_by_the_field_that_counts_on_it() -> None:
    hyperv = a_run(features={"hyperv": {"reenlightenment": {}}})
    invtsc = a_run(cpu={"features": [{"name": "invtsc", "policy": "require"}]})
    for vmi, field in (
        (hyperv, "spec.domain.features.hyperv.reenlightenment"),
        (invtsc, "spec.domain.cpu.features[invtsc]"),
    ):
        said = fault(vmi)
        assert said.startswith(f"{field}: the guest was not told its counter's frequency")
        assert "tsc-frequency: take the snapshot without memory" in said
        vmi.status.topology_hints = TopologyHints(tsc_frequency=2399998000)
        assert fault(vmi) == ""
    passed = fault(a_run(features={"hypervPassthrough": {}}))
    assert passed.startswith("spec.domain.features.hypervPassthrough: ")
    assert fault(a_run(features={"hypervPassthrough": {"enabled": False}})) == ""
