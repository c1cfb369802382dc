# Tests: kvedge/controller/vmi/claim_holders.py, kvedge/controller/vmi_claims.py
"""Who has a claim: from the start, by an attachment Pod, and for how long."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from kvedge.controller.vmi.claim_holders import ClaimHolders
from kvedge.controller.vmi.hotplug.attachment_pod_manifest import attachment_pod
from kvedge.kube.informer import Informer
from kvedge.resources.types.core import Pod
from kvedge.resources.types.devices import Disk, DiskTarget
from kvedge.resources.types.vmi import (
    ClaimInfo,
    HotplugVolumeStatus,
    MigratedVolume,
    VirtualMachineInstance,
    VolumeStatus,
)
from tests.support.builders import a_claim, ended
from tests.unit.controller.vmi.hotplug.hotplug_world import a_launcher, a_running_vmi, a_volume


class Listed:
    """An informer's cache, in a list."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.indexes: dict[str, Any] = {}

    def add_index(self, name: str, values: Any) -> None:
        self.indexes[name] = values

    def find_indexed(self, name: str, value: str) -> list[Any]:
        return [item for item in self.items if value in self.indexes[name](item)]

    def find_owned_by(self, uid: str) -> list[Any]:
        found = [(item, item.metadata.controller_reference()) for item in self.items]
        return [item for item, owner in found if owner is not None and owner.uid == uid]


class Held:
    """Two VMIs that want the claim `data`: `ours` asks, `first` may have it by hotplug."""

    def __init__(self) -> None:
        self.vmis, self.launchers, self.attachments = Listed(), Listed(), Listed()
        self.holders = ClaimHolders(
            cast("Informer[VirtualMachineInstance]", self.vmis),
            cast("Informer[Pod]", self.launchers),
            cast("Informer[Pod]", self.attachments),
        )
        self.ours, self.first = a_vmi_on("ours"), a_vmi_on("first")
        self.launcher = a_launcher(self.first)
        self.vmis.items = [self.ours, self.first]
        self.launchers.items = [self.launcher]

    def attach(self) -> None:
        pod = attachment_pod(self.first, "data", a_claim("data"), self.launcher)
        self.attachments.items = [pod]

    def tell(self, phase: str, pod: str = "hp-1") -> None:
        attachment = HotplugVolumeStatus(attach_pod_name=pod)
        info = ClaimInfo(claim_name="data")
        self.first.status.volume_status = [
            VolumeStatus(
                name="data", target="", phase=phase, persistent_volume_claim_info=info, hotplug_volume=attachment
            )
        ]

    def holder(self) -> str:
        found = self.holders.holder(self.ours, "data")
        return "" if found is None else found.metadata.name


def a_vmi_on(name: str) -> VirtualMachineInstance:
    vmi = copy.deepcopy(a_running_vmi(a_volume("data")))
    vmi.metadata.name, vmi.metadata.uid = name, f"uid-{name}"
    vmi.spec.domain.devices.disks = [Disk(name="data", disk=DiskTarget())]
    return vmi


@pytest.fixture
def held() -> Held:
    return Held()


def test_a_volume_that_only_waits_for_its_claim_keeps_nobody_from_it(held: Held) -> None:
    held.tell("Pending", pod="")
    assert held.holder() == ""


def test_an_attachment_pod_has_its_claim_before_the_status_tells_of_it(held: Held) -> None:
    held.attach()
    assert held.holder() == "first"


@pytest.mark.parametrize(
    ("phase", "pod"),
    [("AttachedToNode", "hp-1"), ("Ready", "hp-1"), ("Ready", ""), ("Detaching", "hp-1")],
    ids=["on its node", "in the guest", "in the guest, its Pod lost", "on its way out"],
)
def test_a_hotplugged_claim_is_held_until_everything_is_undone(held: Held, phase: str, pod: str) -> None:
    held.tell(phase, pod)
    assert held.holder() == "first"
    # The volume has been removed from the spec, and the guest may still have it.
    held.first.spec.volumes = []
    assert held.holder() == "first"
    held.first.status.volume_status = []
    assert held.holder() == ""


def test_a_claim_of_a_vm_that_has_it_from_its_start_is_held(held: Held) -> None:
    (volume,) = [item for item in held.first.spec.volumes if item.name == "data"]
    assert volume.persistent_volume_claim is not None
    volume.persistent_volume_claim.hotpluggable = False
    assert held.holder() == "first"


def test_a_claim_to_which_data_is_copied_is_held_by_whoever_copies(held: Held) -> None:
    moved = MigratedVolume(
        volume_name="data",
        source_pvc_info=ClaimInfo(claim_name="data"),
        destination_pvc_info=ClaimInfo(claim_name="new"),
    )
    held.first.status.migrated_volumes = [moved]
    (volume,) = held.ours.spec.volumes
    assert volume.persistent_volume_claim is not None
    volume.persistent_volume_claim.claim_name = "new"
    # Even a disk that both would share: nobody else is there while it is incomplete.
    for vmi in (held.ours, held.first):
        vmi.spec.domain.devices.disks[0].shareable = True
    assert held.holders.holder(held.ours, "new") is held.first
    assert held.holders.holder(held.first, "new") is None
    held.launchers.items = []
    assert held.holders.holder(held.ours, "new") is None


def test_a_claim_that_another_vm_has_gets_nobodys_data(held: Held) -> None:
    held.tell("Ready")
    moved = MigratedVolume(
        volume_name="root",
        source_pvc_info=ClaimInfo(claim_name="root"),
        destination_pvc_info=ClaimInfo(claim_name="data"),
    )
    held.ours.spec.volumes = [a_volume("root")]
    assert held.holder() == ""
    held.ours.status.migrated_volumes = [moved]
    assert held.holder() == "first"


def test_a_vm_that_has_ended_holds_nothing(held: Held) -> None:
    held.tell("Ready")
    held.launcher.status.phase = "Succeeded"
    held.launcher.status.container_statuses[0].state = ended("Succeeded")
    assert held.holder() == ""
    held.launchers.items = []
    assert held.holder() == ""


def test_disks_that_both_share_are_held_by_nobody(held: Held) -> None:
    held.tell("Ready")
    for vmi in (held.ours, held.first):
        vmi.spec.domain.devices.disks[0].shareable = True
    assert held.holder() == ""


def test_a_vm_does_not_keep_itself_from_its_claim(held: Held) -> None:
    held.tell("Ready")
    assert held.holders.holder(held.first, "data") is None
