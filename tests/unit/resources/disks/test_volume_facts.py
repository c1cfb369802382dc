from __future__ import annotations

import pytest

from kvedge.resources.disks import volume_facts
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import (
    DataVolumeSource,
    EmptyDisk,
    EphemeralClaim,
    EphemeralSource,
    PersistentVolumeClaimSource,
    Volume,
)

CLAIM = Volume(name="a", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="data"))
PLUGGED = Volume(name="b", data_volume=DataVolumeSource(name="dv", hotpluggable=True))
LAYER = Volume(name="c", ephemeral=EphemeralSource(persistent_volume_claim=EphemeralClaim(claim_name="golden")))
EMPTY = Volume(name="d", empty_disk=EmptyDisk(capacity="1Gi"))


@pytest.mark.parametrize(
    ("volume", "claim"),
    [(CLAIM, "data"), (PLUGGED, "dv"), (LAYER, "golden"), (EMPTY, None)],
    ids=lambda item: str(item)[:20],
)
def test_each_kind_of_volume_names_its_claim(volume: Volume, claim: str | None) -> None:
    assert volume_facts.claim_of(volume) == claim


def test_a_layer_without_a_claim_has_none() -> None:
    assert volume_facts.claim_of(Volume(name="x", ephemeral=EphemeralSource())) is None


def test_only_volumes_that_say_so_are_hotplugged() -> None:
    vmi = VirtualMachineInstance(spec=VirtualMachineInstanceSpec(volumes=[CLAIM, PLUGGED, LAYER, EMPTY]))
    assert volume_facts.hotplugged_volumes(vmi) == [PLUGGED]
    assert [name for _, name in volume_facts.claims(vmi.spec.volumes)] == ["data", "dv", "golden"]


def test_paths_in_the_launcher_are_those_of_kubevirt() -> None:
    assert volume_facts.claim_directory("root") == "/var/run/kubevirt-private/vmi-disks/root"
    assert volume_facts.device_path("root") == "/dev/root"
    assert volume_facts.hotplug_path("extra", block=True) == "/var/run/kubevirt/hotplug-disks/extra"
    assert volume_facts.hotplug_path("extra", block=False) == "/var/run/kubevirt/hotplug-disks/extra.img"
