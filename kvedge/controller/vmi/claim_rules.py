"""A VMI waits for claims that are missing, lost, of the wrong kind, or written by another VM.

Called by the VMI's plan and its loop. Pure. Each wait names the claim and the remedy; it ends by itself when the cause
is mended: a change of the claim brings the plan to look again, and for the VM that has the claim it looks now and then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.controller.local_path_rules import LOCAL_PATH, binding_problem, provisioner_of
from kvedge.controller.vmi.launcher_pod_status import SYNCHRONIZED
from kvedge.controller.vmi_claims import has_hotplugged, is_moving_to
from kvedge.resources.data_volume_names import RUNNING, RUNNING_MESSAGE, RUNNING_REASON, UPLOAD_TARGET
from kvedge.resources.disks.claim_facts import is_of_data_volume, is_populated
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.state_claims import STATE_CLAIM, STATE_LABEL, is_state_of, own_volumes, state_volumes
from kvedge.resources.disks.volume_facts import claim_of, claims, is_hotpluggable
from kvedge.resources.meta import Condition
from kvedge.resources.shares.shared_directories import shared_volumes
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume

# KubeVirt's word, by which it tells a VM's state ErrorPvcNotFound.
NOT_FOUND: Final = "FailedPvcNotFound"
LOST: Final = "PVCLost"
WRONG_MODE: Final = "PVCWrongMode"
NOT_POPULATED: Final = "PVCNotPopulated"
IN_USE: Final = "PVCInUse"
NOT_BOUND: Final = "PVCNotBound"
NOT_OURS: Final = "PVCNotOfThisVM"
REASONS: Final = frozenset({NOT_FOUND, LOST, WRONG_MODE, NOT_POPULATED, IN_USE, NOT_BOUND, NOT_OURS})
# When to look again at a claim that another VM has.
IN_USE_SECONDS: Final = 2.0
# A worker's words are cut before they are told on.
_LONGEST_TEXT: Final = 512
_POD_SCHEDULED: Final = "PodScheduled"
_SCHEDULER_RETRIES: Final = "SchedulerError"


class ClaimView(Struct, frozen=True):
    """The claims of a VMI's namespace that it names and that there are, by name, and the VMI that has each of them,
    where that keeps this one from it. `cdi` says what their file systems take; None while that is not known.
    """

    found: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    holders: Mapping[str, VirtualMachineInstance] = field(default_factory=dict)
    cdi: CdiConfig | None = None


class ClaimWait(Struct, frozen=True):
    """Why no launcher is started yet: the VMI's condition Synchronized, what its user is warned of once, and
    PodScheduled where KubeVirt sets that as well; and in how many seconds to look again when no claim changes.

    A wait that ends by itself is shown by the condition alone: nothing is wrong.
    """

    failure: Condition
    warning: Condition | None
    unscheduled: Condition | None = None
    again_after: float | None = None


def claim_wait(vmi: VirtualMachineInstance, view: ClaimView) -> ClaimWait | None:
    """The first thing that keeps the launcher from being started, or None."""
    return next(_find_waits(vmi, view), None)


def find_needed_claims(vmi: VirtualMachineInstance) -> Sequence[tuple[Volume, str]]:
    """The volumes whose claims must be there before the launcher is, with the claims' names."""
    own = [*vmi.spec.volumes, *own_volumes(vmi)]
    return [(volume, name) for volume, name in claims(own) if not is_hotpluggable(volume)]


def lacks_state_claim(vmi: VirtualMachineInstance, view: ClaimView) -> bool:
    """Whether the claim for the VM's own state is still to be made; one that a restore has made is not made anew."""
    return STATE_CLAIM not in vmi.metadata.annotations and any(
        name not in view.found for _, name in claims(state_volumes(vmi))
    )


def _find_waits(vmi: VirtualMachineInstance, view: ClaimView) -> Iterator[ClaimWait]:
    for volume, name in find_needed_claims(vmi):
        claim = view.found.get(name)
        if claim is None:
            yield _make_not_found_wait(vmi, volume, name)
        elif volume.name == STATE_VOLUME and not is_state_of(claim, vmi):
            yield _wait(NOT_OURS, _explain_foreign_state(claim))
        elif claim.status.phase == "Lost":
            lost = f"its volume {claim.spec.volume_name} is gone" if claim.spec.volume_name else "its volume is gone"
            text = (
                f"PVC {name} of volume {volume.name} is Lost: {lost}, and the data with it unless somebody has kept"
                " that; restore the PersistentVolume, or delete the claim and make it anew"
            )
            yield _wait(LOST, text)
        elif not is_populated(claim):
            wait = _wait(NOT_POPULATED, filling_words(volume.name, claim))
            yield replace(wait, warning=None) if _fills_by_itself(claim) else wait
        elif _is_lun(vmi, volume.name) and not claim.is_block:
            text = (
                f"device {volume.name} is of type lun. Not compatible with a file based disk: PVC {name} has"
                " volumeMode Filesystem; use disk instead of lun, or a claim with volumeMode Block"
            )
            yield _wait(WRONG_MODE, text)
        elif claim.is_block and any(volume.name == each.name for _, each in shared_volumes(vmi.spec)):
            text = (
                f"filesystem {volume.name} is a directory, and PVC {name} has volumeMode Block; use a claim with"
                " volumeMode Filesystem, or a disk"
            )
            yield _wait(WRONG_MODE, text)
        elif name in view.holders:
            yield replace(
                _wait(IN_USE, in_use(volume.name, name, view.holders[name], "it starts")), again_after=IN_USE_SECONDS
            )


def binding_wait(vmi: VirtualMachineInstance, view: ClaimView) -> ClaimWait | None:
    """Why a launcher that is there is not scheduled, as far as a claim that is not bound can be the reason.

    A claim that a provisioner is at work on is none to be warned of: it is bound a moment later.
    """
    for volume, name in find_needed_claims(vmi):
        claim = view.found.get(name)
        if claim is not None and claim.status.phase not in ("Bound", "Lost"):
            remedy = _find_binding_remedy(claim)
            text = f"PVC {name} of volume {volume.name} is not bound yet{remedy}; the VM starts by itself once it is"
            wait = _wait(NOT_BOUND, text)
            return wait if remedy else replace(wait, warning=None)
    return None


def conflicts(vmi: VirtualMachineInstance, other: VirtualMachineInstance, claim: str) -> bool:
    """Whether two VMIs may not have one claim at the same time: one writes it, and not both say that they share it."""
    ours, theirs = _use(vmi, claim), _use(other, claim)
    if theirs is None and has_hotplugged(other, claim):
        # It leaves, and how its disk used it is no longer known.
        theirs = _ALONE
    # Nobody else has a claim while data is copied to it.
    ours = _ALONE if is_moving_to(vmi, claim) else ours
    theirs = _ALONE if is_moving_to(other, claim) else theirs
    if ours is None or theirs is None:
        return False
    both_read = not ours.writes and not theirs.writes
    return not both_read and not (ours.shares and theirs.shares)


class _Use(Struct, frozen=True):
    writes: bool
    shares: bool


_ALONE: Final = _Use(writes=True, shares=False)


def _use(vmi: VirtualMachineInstance, claim: str) -> _Use | None:
    """How the disks of a VMI use a claim; None when none does. A layer over a claim only reads it."""
    if any(name == claim for _, name in claims(own_volumes(vmi))):
        return _ALONE
    disks = {disk.name: disk for disk in vmi.spec.domain.devices.disks}
    found = [
        (volume, disks[volume.name])
        for volume, name in claims(vmi.spec.volumes)
        if name == claim and volume.name in disks
    ]
    if not found:
        return _use_of_directory(vmi, claim)
    return _Use(
        writes=any(not _only_reads(volume, disk) for volume, disk in found),
        shares=all(bool(disk.shareable) for _, disk in found),
    )


def _use_of_directory(vmi: VirtualMachineInstance, claim: str) -> _Use | None:
    """Many may write the files of a directory, but for one that holds the image of another guest's disk."""
    for _, volume in shared_volumes(vmi.spec):
        if claim_of(volume) == claim:
            source = volume.persistent_volume_claim
            return _Use(writes=source is None or not source.read_only, shares=True)
    return None


def _only_reads(volume: Volume, disk: Disk) -> bool:
    if volume.ephemeral is not None or disk.cdrom is not None:
        return True
    source, target = volume.persistent_volume_claim, disk.disk or disk.lun
    return (source is not None and source.read_only) or (target is not None and target.readonly)


def in_use(volume: str, claim: str, holder: VirtualMachineInstance, then: str) -> str:
    """The words for a claim that another VM has; `then` is what happens once it is free."""
    where = f" on node {holder.status.node_name}" if holder.status.node_name else ""
    name = holder.metadata.name
    return (
        f"PVC {claim} of volume {volume} is in use by VM {name}{where}, and two VMs must not write it at once: {then}"
        f" by itself when {name} has ended or has detached it; stop that, use another claim, or set shareable: true"
        " on the disks of both when their guests can share a disk"
    )


def _explain_foreign_state(claim: PersistentVolumeClaim) -> str:
    name = claim.metadata.name
    text = f"PVC {name} is to keep the state of this VM's TPM and UEFI firmware, and is another one's"
    if claim.metadata.deletion_timestamp is not None:
        return f"{text}; it is being deleted, and the VM starts by itself once it is gone"
    return (
        f"{text}: keys that a guest has sealed may be there; the VM starts by itself once that claim is gone, or has no"
        f" ownerReferences and the label {STATE_LABEL}: this VM's name"
    )


def _find_binding_remedy(claim: PersistentVolumeClaim) -> str:
    """What somebody has to do before the claim is bound, after a colon; nothing when it is by itself."""
    provisioner = provisioner_of(claim)
    if provisioner == LOCAL_PATH:
        return f": {binding_problem(claim)}" if binding_problem(claim) else ""
    if not provisioner and claim.spec.storage_class_name == "":
        return ': it has storageClassName "", and is bound to a PersistentVolume that somebody makes'
    if not provisioner and claim.spec.storage_class_name is None:
        return ": no storage class is the default one; set storageClassName, or make a class the default"
    return ""


def filling_words(volume: str, claim: PersistentVolumeClaim, then: str = "the VM starts") -> str:
    """What to say of a claim that is being filled, with the worker's trouble, and what follows by itself."""
    name, trouble = claim.metadata.name, _filling_trouble(claim)
    text = f"PVC {name} of volume {volume} is being filled by DataVolume {name}; {then} by itself when it is full"
    if not is_of_data_volume(claim):
        text = (
            f"PVC {name} of volume {volume} waits for an upload; {then} by itself once it is filled: `kvedge"
            f" image-upload pvc {name} --no-create --image-path FILE`, or take the annotation {UPLOAD_TARGET} off it"
        )
    return f"{text}: {trouble[:_LONGEST_TEXT]}" if trouble else text


def _filling_trouble(claim: PersistentVolumeClaim) -> str:
    said = claim.metadata.annotations
    return said.get(RUNNING_MESSAGE, "") if said.get(RUNNING) != "true" else ""


def _fills_by_itself(claim: PersistentVolumeClaim) -> bool:
    """Whether nobody need do anything: the scheduler tries again by itself when a write of its own was overtaken."""
    if not is_of_data_volume(claim):
        return False
    return not _filling_trouble(claim) or claim.metadata.annotations.get(RUNNING_REASON) == _SCHEDULER_RETRIES


def _make_not_found_wait(vmi: VirtualMachineInstance, volume: Volume, name: str) -> ClaimWait:
    namespace = vmi.metadata.namespace
    remedy = f"volume {volume.name} needs it: create it, and the VM starts by itself"
    if volume.name == STATE_VOLUME:
        remedy = (
            f"it had the state of this VM's TPM and UEFI firmware: restore a snapshot again, or set the VM's"
            f' annotation {STATE_CLAIM} to "", and it starts with a new one'
        )
    if volume.data_volume is not None:
        remedy = f"volume {volume.name} needs the claim of DataVolume {name}: create that, and the VM starts by itself"
    text = f"PVC {namespace}/{name} does not exist, waiting for it to appear"
    scheduled = Condition(type=_POD_SCHEDULED, status="False", reason="Unschedulable", message=text)
    failure = Condition(type=SYNCHRONIZED, status="False", reason=NOT_FOUND, message=f"{text}; {remedy}")
    warning = Condition(type=SYNCHRONIZED, status="False", reason=NOT_FOUND, message=text)
    return ClaimWait(failure, warning, scheduled)


def _wait(reason: str, text: str) -> ClaimWait:
    failure = Condition(type=SYNCHRONIZED, status="False", reason=reason, message=text)
    return ClaimWait(failure, failure)


def _is_lun(vmi: VirtualMachineInstance, volume: str) -> bool:
    return any(disk.name == volume and disk.lun is not None for disk in vmi.spec.domain.devices.disks)
