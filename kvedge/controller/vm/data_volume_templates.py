"""The DataVolumes of a VM's dataVolumeTemplates.

Called by the VM's loop. Pure. A template is applied once: what is there is left as it is, what was deleted is made
again. A claim of that name that nobody owns is taken over with its data. One that is going, or is another VM's, keeps
the VM from starting: its data would be lost, or written by two.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.data_volume_names import ALLOW_ADOPTION, KEPT_FOR_POOL
from kvedge.resources.disks.clone_grants import CLONE_ACCOUNT
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.scaling.pools import VirtualMachinePool
from kvedge.resources.types.vm import VirtualMachine

CREATED: Final = "SuccessfulDataVolumeCreate"
NOT_CREATED: Final = "FailedDataVolumeCreate"
UNAUTHORIZED: Final = "UnauthorizedDataVolumeCreate"
_OTHER_NAME: Final = "give the VM's another name in spec.dataVolumeTemplates"


class Use(Struct, frozen=True):
    """The VM takes it as it is."""


class Adopt(Struct, frozen=True):
    """Its pool has kept it for the VM, which owns it from here on."""

    body: JsonObject


class Blocked(Struct, frozen=True):
    """The VM does not start with it."""

    why: str


Taking: TypeAlias = Use | Adopt | Blocked


def plan_taking(vm: VirtualMachine, there: DataVolume) -> Taking:
    """What becomes of a DataVolume that has the name of one that the VM brings along."""
    meta = there.metadata
    if meta.deletion_timestamp is not None:
        return Blocked(f"DataVolume {meta.name} is being deleted: another one is made once it has gone")
    owner = meta.controller_reference()
    if owner is not None:
        if owner.kind == VirtualMachine.KIND.kind and owner.uid != vm.metadata.uid:
            whose = f"DataVolume {meta.name} belongs to {owner.kind} {owner.name} (UID {owner.uid})"
            return Blocked(f"{whose}: {_OTHER_NAME}, or to share it name it in spec.template.spec.volumes alone")
        return Use()
    pool = meta.annotations.get(KEPT_FOR_POOL)
    mine = vm.metadata.controller_reference()
    if pool is None or mine is None or mine.kind != VirtualMachinePool.KIND.kind:
        return Use()
    if mine.name != pool:
        whose = f"DataVolume {meta.name} is kept for VirtualMachinePool {pool}"
        return Blocked(f"{whose}: {_OTHER_NAME}, or take its annotation {KEPT_FOR_POOL} away")
    owners = [encode(each) for each in (*meta.owner_references, owner_reference(vm))]
    # The label of the VM that made it stays, as in KubeVirt.
    return Adopt({"metadata": {"ownerReferences": owners, "annotations": {KEPT_FOR_POOL: None}}})


def make_wanted_data_volumes(vm: VirtualMachine) -> list[DataVolume]:
    """All DataVolumes that a VM brings along; none while it goes."""
    if vm.metadata.deletion_timestamp is not None or vm.spec.template is None:
        return []
    priority = vm.spec.template.spec.priority_class_name
    made = []
    for template in vm.spec.data_volume_templates:
        if not template.metadata.name:
            continue
        account = template.spec.service_account_name or _account(vm)
        meta = ObjectMeta(
            name=template.metadata.name,
            namespace=vm.metadata.namespace,
            labels={**template.metadata.labels, CREATED_BY: vm.metadata.uid},
            annotations={ALLOW_ADOPTION: "true", **template.metadata.annotations, CLONE_ACCOUNT: account},
            owner_references=[owner_reference(vm)],
        )
        dv = DataVolume(metadata=meta, spec=template.spec)
        dv.spec.priority_class_name = template.spec.priority_class_name or priority
        made.append(dv)
    return made


def _account(vm: VirtualMachine) -> str:
    """By whose rights claims of other namespaces are copied: the account that the VM's guest has, or the usual one."""
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    accounts = (volume.service_account for volume in volumes)
    return next((found.service_account_name for found in accounts if found is not None), "") or "default"
