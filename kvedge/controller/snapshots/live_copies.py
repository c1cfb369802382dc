"""The copies of a VM that runs: claims like the VM's own, which its launcher fills as its disks were at one moment.

Called by `live_plan`. Pure. The claims come to the launcher as utility volumes of the VMI, and one word of the VMI's
status asks for the copy; the handler's answer is there, too. Once they are whole, each claim is sealed: should it be
deleted, another one of its name is no copy.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from kvedge.controller.snapshots.content_plan import claim_names, copy_names
from kvedge.controller.snapshots.memory.memory_backup import holds_memory
from kvedge.controller.snapshots.snapshot_actions import Patch
from kvedge.controller.snapshots.volume_copies import claim_like, lasting_claims
from kvedge.controller.vmi.launcher_pods import is_moving
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.snapshot_names import (
    LIVE_COPIES,
    METHOD,
    RUN,
    SEALED_CLAIM,
    SOURCE_VM_NAME,
    SOURCE_VM_NAMESPACE,
)
from kvedge.resources.disks.volume_facts import lasting_claim
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContent, VolumeBackup
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import (
    CopiedVolume,
    DiskCopyRequest,
    UtilityVolume,
    VirtualMachineInstance,
)
from kvedge.resources.values.label_values import as_label_value

_MOST_OF_NAME: Final = 40
_BACKUP: Final = "Backup"


def is_live(content: VirtualMachineSnapshotContent) -> bool:
    """Whether its copies are made while the VM runs."""
    return content.metadata.annotations.get(METHOD) == LIVE_COPIES


def find_live_obstacle(vm: VirtualMachine, vmi: VirtualMachineInstance) -> str:
    """Why the disks of this run cannot be copied yet, to follow on the VM's name; empty when they can."""
    if vmi.metadata.deletion_timestamp is not None:
        return "is ending"
    if vmi.status.phase != "Running":
        return "is starting"
    if vmi.status.evacuation_node_name:
        return "is to leave its node"
    if is_moving(vmi):
        return "is moving to another node"
    if vmi.status.disk_copy is not None or any(each.type == _BACKUP for each in vmi.spec.utility_volumes):
        return "still has the volumes of another copy"
    held = {volume.name: lasting_claim(volume) for volume in vmi.spec.volumes}
    for volume, claim in lasting_claims(vm).items():
        if held.get(volume) != claim:
            return f"does not run with PVC {claim} as volume {volume}: restart it"
    return ""


def run_of(content: VirtualMachineSnapshotContent) -> str:
    """The UID of the run whose disks are copied."""
    return content.metadata.annotations.get(RUN, "")


def make_copy_claim(
    content: VirtualMachineSnapshotContent, backup: VolumeBackup, claim: PersistentVolumeClaim, vm: str
) -> PersistentVolumeClaim:
    """The claim that the copy of one volume goes into."""
    namespace = content.metadata.namespace
    meta = ObjectMeta(
        name=backup.volume_snapshot_name or "",
        namespace=namespace,
        labels={SOURCE_VM_NAME: as_label_value(vm), SOURCE_VM_NAMESPACE: namespace},
        owner_references=[owner_reference(content)],
    )
    return PersistentVolumeClaim(metadata=meta, spec=claim_like(claim))


def is_of_content(claim: PersistentVolumeClaim, content: VirtualMachineSnapshotContent) -> bool:
    """Whether a claim was made for this content."""
    return any(owner.uid == content.metadata.uid for owner in claim.metadata.owner_references)


def copy_request(content: VirtualMachineSnapshotContent) -> DiskCopyRequest:
    """The word in the VMI."""
    uid = content.metadata.name
    volumes = [CopiedVolume(volume_name=name, copy_name=_utility_name(uid, name)) for name in claim_names(content)]
    return DiskCopyRequest(
        name=uid, volumes=volumes, memory=_utility_name(uid, "memory") if holds_memory(content) else ""
    )


def ask(vmi: VirtualMachineInstance, content: VirtualMachineSnapshotContent) -> Patch:
    """The write that brings the claims to the launcher and asks for the copy."""
    request = copy_request(content)
    # The memory's is the last of both.
    names = [*(volume.copy_name for volume in request.volumes), *([request.memory] if request.memory else [])]
    brought = [
        UtilityVolume(name=name, claim_name=claim, type=_BACKUP)
        for name, claim in zip(names, copy_names(content), strict=True)
    ]
    body: JsonObject = {
        "spec": {"utilityVolumes": [encode(each) for each in [*vmi.spec.utility_volumes, *brought]]},
        "status": {"diskCopy": encode(request)},
    }
    return Patch(vmi, body)


def is_asked(vmi: VirtualMachineInstance, content: VirtualMachineSnapshotContent) -> bool:
    """Whether the VMI asks for the copies of this content."""
    return vmi.status.disk_copy is not None and vmi.status.disk_copy.name == content.metadata.name


def withdraw(vmi: VirtualMachineInstance | None, content_name: str) -> Patch | None:
    """The write by which nobody asks for a content's copies any more and their claims leave; None when it is so."""
    if vmi is None or vmi.status.disk_copy is None or vmi.status.disk_copy.name != content_name:
        return None
    ours = {volume.copy_name for volume in vmi.status.disk_copy.volumes} | {vmi.status.disk_copy.memory}
    left = [encode(each) for each in vmi.spec.utility_volumes if each.name not in ours]
    return Patch(vmi, {"spec": {"utilityVolumes": left or None}, "status": {"diskCopy": None}})


def seal_claim(claim: PersistentVolumeClaim) -> Patch:
    """The write that says of a claim that its copy is whole."""
    return Patch(claim, {"metadata": {"annotations": {SEALED_CLAIM: claim.metadata.uid}}})


def _utility_name(content: str, volume: str) -> str:
    """A name that no volume of the VMI has, and that tells of which one the copy is."""
    digest = base64.b32encode(hashlib.sha256(f"{content}/{volume}".encode()).digest()).decode().lower()[:10]
    return f"{volume[:_MOST_OF_NAME].rstrip('-')}-copy-{digest}"
