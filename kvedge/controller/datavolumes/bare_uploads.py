"""Claims without a DataVolume that take an upload: those that `image-upload pvc` makes, or marks.

Called by data_volume_loop.py. Pure. Such a claim is planned as the claim of a DataVolume of its name whose source is an
upload, which nobody has stored: so its worker, its tries and its annotations are the same. What would be written to the
DataVolume's status is dropped, and the worker belongs to the claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from kvedge.controller.datavolumes.data_volume_view import (
    Action,
    CreateWorker,
    DataVolumePlan,
    PatchClaim,
    PatchStatus,
)
from kvedge.controller.vmi_claims import has_hotplugged
from kvedge.resources import data_volume_names as names
from kvedge.resources.disks.claim_facts import is_upload_target
from kvedge.resources.disks.volume_facts import claims, is_hotpluggable
from kvedge.resources.meta import ObjectMeta, OwnerReference, owner_reference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume, DataVolumeOrigin, DataVolumeSourceUpload, DataVolumeSpec
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance

IN_USE: Final = "UploadTargetInUse"


def upload_into(claim: PersistentVolumeClaim) -> DataVolume | None:
    """The DataVolume that such a claim stands for; None for a claim that is no upload's, or somebody else's to fill."""
    meta = claim.metadata
    if not is_upload_target(claim):
        return None
    return DataVolume(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            annotations=meta.annotations,
            deletion_timestamp=meta.deletion_timestamp,
        ),
        spec=DataVolumeSpec(
            source=DataVolumeOrigin(upload=DataVolumeSourceUpload()),
            pvc=claim.spec,
            content_type=meta.annotations.get(names.CONTENT_TYPE, names.KUBEVIRT_CONTENT),
        ),
    )


def as_its_claim(claim: PersistentVolumeClaim, dv: DataVolume) -> PersistentVolumeClaim:
    """The claim as the one of that DataVolume."""
    metadata = msgspec.structs.replace(
        claim.metadata, owner_references=[*claim.metadata.owner_references, owner_reference(dv)]
    )
    return msgspec.structs.replace(claim, metadata=metadata)


def user_of(vmis: Iterable[VirtualMachineInstance], claim: str) -> str:
    """A guest that has the claim already, and could write it; empty when none has."""
    return min((vmi.metadata.name for vmi in vmis if _has(vmi, claim)), default="")


def _has(vmi: VirtualMachineInstance, claim: str) -> bool:
    if vmi.is_final or vmi.status.phase in ("", "Pending"):
        return False
    if any(name == claim and not is_hotpluggable(volume) for volume, name in claims(vmi.spec.volumes)):
        return True
    # A hotplugged volume that is not attached waits for the upload itself.
    return has_hotplugged(vmi, claim)


def claim_plan(plan: DataVolumePlan, claim: PersistentVolumeClaim, user: str) -> DataVolumePlan:
    """What the plan for the DataVolume means for the claim alone; `user` is the guest that has it."""
    actions: list[Action] = []
    for action in plan.actions:
        if isinstance(action, PatchStatus):
            continue
        if not isinstance(action, CreateWorker):
            actions.append(action)
        elif user:
            actions += _tell_in_use(claim, user)
        else:
            actions.append(replace(action, pod=_with_owner(action.pod, claim)))
    return DataVolumePlan(tuple(actions), (), plan.again_after)


def _tell_in_use(claim: PersistentVolumeClaim, user: str) -> list[PatchClaim]:
    wanted = {
        names.RUNNING: "false",
        names.RUNNING_REASON: IN_USE,
        names.RUNNING_MESSAGE: f"VM {user} has this claim: the upload begins once that is stopped",
    }
    said = claim.metadata.annotations
    changed = {key: value for key, value in wanted.items() if said.get(key) != value}
    return [PatchClaim(claim, {"metadata": {"annotations": changed}})] if changed else []


def _with_owner(pod: Pod, claim: PersistentVolumeClaim) -> Pod:
    kind = PersistentVolumeClaim.KIND
    owner = OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        controller=True,
    )
    metadata = msgspec.structs.replace(pod.metadata, owner_references=[owner])
    return msgspec.structs.replace(pod, metadata=metadata)
