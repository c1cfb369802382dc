"""A VM and its run whose volumes have claims, for tests of claims that are exchanged."""

from __future__ import annotations

from typing import Any

from kvedge.controller.claim_copy import claim_info
from kvedge.controller.vm.claim_changes import ClaimSights
from kvedge.resources.codec import decode
from kvedge.resources.disks.moved_volumes import MIGRATION
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance, VolumeStatus
from kvedge.resources.types.volumes import Volume
from tests.support.builders import a_claim, a_vm, a_vmi

GIB = 1 << 30
OPEN = MigrationState(migration_uid="m1", source_node="node-1", target_node="node-2")


def on_claim(name: str, claim: str, **source: Any) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim, **source}}


def a_pair(
    wanted: dict[str, str], there: dict[str, str] | None = None, strategy: str = MIGRATION
) -> tuple[VirtualMachine, VirtualMachineInstance]:
    """A VM whose volumes have the claims `wanted`, and its run on the claims `there`, or on `NAME-old` of each."""
    vm = a_vm()
    vm.spec.update_volumes_strategy = strategy
    vmi = a_vmi(owner=vm)
    assert vm.spec.template is not None
    ours = {name: f"{name}-old" for name in wanted} if there is None else there
    for spec, claims in ((vm.spec.template.spec, wanted), (vmi.spec, ours)):
        spec.volumes = [decode(Volume, on_claim(name, claim)) for name, claim in claims.items()]
        spec.domain.devices.disks = [decode(Disk, {"name": name, "disk": {"bus": "virtio"}}) for name in claims]
    vmi.status.volume_status = [
        VolumeStatus(name=name, target="vda", size=9 * GIB, persistent_volume_claim_info=info_of(a_claim(claim)))
        for name, claim in ours.items()
    ]
    return vm, vmi


def info_of(claim: PersistentVolumeClaim) -> ClaimInfo:
    info = claim_info(claim, None, None)
    info.filesystem_overhead = "0.06"
    return info


def sights(*claims: PersistentVolumeClaim, **others: str) -> ClaimSights:
    """These claims are there; `others` are whoever else has one."""
    found = {claim.metadata.name: claim for claim in claims}
    copies = {name: info_of(claim) for name, claim in found.items()}
    return ClaimSights(found, copies, {name.replace("_", "-"): other for name, other in others.items()})
