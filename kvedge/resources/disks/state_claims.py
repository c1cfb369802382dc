"""The claim that keeps a VM's own state from run to run: the variables of its UEFI firmware, and what is in its TPM.

Called by the controller, which makes it before the first launcher, and by the launcher's preparation. Pure. The label,
the volume's name in the status and the size are KubeVirt's. The name is not: KubeVirt has the server choose one, while
here it follows from the VM's, so that no two passes make two.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.meta import ObjectMeta, OwnerReference, owner_reference
from kvedge.resources.types.storage import (
    READ_WRITE_MANY,
    READ_WRITE_ONCE,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeResources,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import PersistentVolumeClaimSource, Volume
from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.saved_memory import MEMORY_VOLUME, resume_claim

# On the claim, also on one that a restore has made: the name of the VM.
STATE_LABEL: Final = "persistent-state-for"
STATE_SIZE: Final = "10Mi"
# On a VM that was restored, and on the VMIs that it starts: the claim that has its state. The controller writes it.
STATE_CLAIM: Final = "kvedge.io/state-claim"
# On a VM to which a backup has brought what is in its TPM: the UID of the VM that had this TPM first.
TPM_ORIGIN: Final = "kvedge.io/tpm-origin"
_PREFIX: Final = "persistent-state-for-"
_LONGEST_NAME: Final = 253
_DIGEST: Final = 10


def keeps_firmware(spec: VirtualMachineInstanceSpec) -> bool:
    """Whether the variables of UEFI are to last."""
    firmware = spec.domain.firmware
    loader = firmware.bootloader if firmware is not None else None
    return loader is not None and loader.efi is not None and bool(loader.efi.persistent)


def keeps_tpm(spec: VirtualMachineInstanceSpec) -> bool:
    """Whether what is in the TPM is to last."""
    tpm = spec.domain.devices.tpm
    return tpm is not None and tpm.is_wanted and bool(tpm.persistent)


def keeps_state(spec: VirtualMachineInstanceSpec) -> bool:
    """Whether the VM has such a claim at all."""
    return keeps_firmware(spec) or keeps_tpm(spec)


def origin_of(metadata: JsonObject) -> str:
    """The UID of the VM that had the TPM of a VM first, by the metadata of the latter; empty where they do not say.

    >>> origin_of({"uid": "u-2", "annotations": {TPM_ORIGIN: "u-1"}})
    'u-1'
    """
    annotations = metadata.get("annotations")
    named = annotations.get(TPM_ORIGIN) if isinstance(annotations, dict) else None
    return str(named or metadata.get("uid") or "")


def mark_origin(metadata: JsonObject) -> dict[str, str]:
    """The annotation of a VM that is made with the TPM of another one, whose metadata these are: the UID is new."""
    origin = origin_of(metadata)
    return {TPM_ORIGIN: origin} if origin else {}


def state_claim_name(vm: str) -> str:
    """The name of the claim of a VM.

    >>> state_claim_name("web")
    'persistent-state-for-web'
    """
    name = _PREFIX + vm
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(vm.encode()).hexdigest()[:_DIGEST]
    return f"{name[: _LONGEST_NAME - _DIGEST - 1]}-{digest}"


def state_claim_of(metadata: ObjectMeta) -> str:
    """The claim of this VM or VMI: the one that a restore has made, or that of its name.

    >>> state_claim_of(ObjectMeta(name="web", annotations={STATE_CLAIM: "restored"}))
    'restored'
    """
    return metadata.annotations.get(STATE_CLAIM) or state_claim_name(metadata.name)


def state_claim_of_run(vmi: VirtualMachineInstance) -> str:
    """The claim of this VMI that counts now: from the word of its target on that all of the state has come, the one
    that the state was brought to.
    """
    return moved_claim_of(vmi.metadata, vmi) or state_claim_of(vmi.metadata)


def moved_claim_of(metadata: ObjectMeta, vmi: VirtualMachineInstance) -> str:
    """The claim that a VM or VMI is to name from now on, as the latest migration of `vmi` has brought the state there;
    empty where it names that one already, or one that has nothing to do with it.
    """
    state = vmi.status.migration_state
    if state is None or not state.moves_state or not state.target_taken_timestamp:
        return ""
    if not state.source_node_domain_gone_timestamp:
        # The guest may run there yet, and write what was there before.
        return ""
    is_behind = state_claim_of(metadata) == state.source_persistent_state_pvc_name
    return state.target_persistent_state_pvc_name if is_behind else ""


def is_shared_state(vmi: VirtualMachineInstance) -> bool:
    """Whether several nodes have the claim at a time, as far as the VMI's status tells."""
    infos = (entry.persistent_volume_claim_info for entry in vmi.status.volume_status if entry.name == STATE_VOLUME)
    info = next(infos, None)
    return info is not None and READ_WRITE_MANY in info.access_modes


def as_state_moved(vmi: VirtualMachineInstance, job: str) -> VirtualMachineInstance:
    """The VMI with the claim that a migration, by its UID, brings the state of TPM and firmware to; as it is where that
    claim is shared, or nothing is to last.
    """
    if not keeps_state(vmi.spec) or is_shared_state(vmi):
        return vmi
    marks = {**vmi.metadata.annotations, STATE_CLAIM: coming_claim_name(vmi.metadata.name, job)}
    return msgspec.structs.replace(vmi, metadata=msgspec.structs.replace(vmi.metadata, annotations=marks))


def coming_claim_name(vm: str, job: str) -> str:
    """The claim that a migration brings the state to: one of its own, which nobody had before.

    >>> coming_claim_name("web", "b5a2")
    'persistent-state-for-web-d9f33004e4'
    """
    digest = hashlib.sha256(job.encode()).hexdigest()[:_DIGEST]
    return f"{state_claim_name(vm)[: _LONGEST_NAME - _DIGEST - 1]}-{digest}"


def state_volumes(vmi: VirtualMachineInstance) -> list[Volume]:
    """The claim as if it were a volume of the VMI; none where nothing is to last."""
    if not keeps_state(vmi.spec):
        return []
    source = PersistentVolumeClaimSource(claim_name=state_claim_of_run(vmi))
    return [Volume(name=STATE_VOLUME, persistent_volume_claim=source)]


def own_volumes(vmi: VirtualMachineInstance) -> list[Volume]:
    """The claims that a launcher's Pod has beside those of the VMI's volumes, as if they were volumes of it, too."""
    return [*state_volumes(vmi), *memory_volumes(vmi)]


def memory_volumes(vmi: VirtualMachineInstance) -> list[Volume]:
    """The claim that the guest's memory comes from; none once it runs: no other launcher of this run needs it."""
    claim = resume_claim(vmi.metadata.annotations)
    if not claim or vmi.is_final or vmi.status.phase == "Running":
        return []
    return [Volume(name=MEMORY_VOLUME, persistent_volume_claim=PersistentVolumeClaimSource(claim_name=claim))]


def make_state_claim(vmi: VirtualMachineInstance, storage_class: str, name: str = "") -> PersistentVolumeClaim:
    """The claim, which goes with the VM, or with a VMI that has none; `storage_class` is "" for the default one.

    `name` is one that a migration brings the state to.
    """
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            namespace=vmi.metadata.namespace,
            name=name or state_claim_name(vmi.metadata.name),
            labels={STATE_LABEL: as_label_value(vmi.metadata.name)},
            owner_references=[_owner(vmi)],
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=[READ_WRITE_ONCE],
            resources=VolumeResources(requests={"storage": STATE_SIZE}),
            storage_class_name=storage_class or None,
        ),
    )


def is_state_of(claim: PersistentVolumeClaim, vmi: VirtualMachineInstance) -> bool:
    """Whether the claim keeps the state of this very VM: not that of an earlier one of the same name, which goes.

    One without an owner was left behind, or brought back, for whatever VM has the name. One that a restore has made
    is named by the VM and owned by what has filled it: it says itself whose it is, whatever a user lets a VM say.
    """
    is_named = vmi.metadata.annotations.get(STATE_CLAIM) == claim.metadata.name
    if is_named or not claim.metadata.owner_references:
        return claim.metadata.labels.get(STATE_LABEL) == as_label_value(vmi.metadata.name)
    return is_owned_state(claim, vmi)


def is_owned_state(claim: PersistentVolumeClaim, vmi: VirtualMachineInstance) -> bool:
    """Whether the claim was made for the state of this very VM, and goes with it."""
    owner = _owner(vmi)
    return any((each.kind, each.uid) == (owner.kind, owner.uid) for each in claim.metadata.owner_references)


def _owner(vmi: VirtualMachineInstance) -> OwnerReference:
    found = vmi.metadata.controller_reference()
    return found if found is not None and found.kind == VirtualMachine.KIND.kind else owner_reference(vmi)
