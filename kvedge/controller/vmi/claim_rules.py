"""What keeps a VMI from its claims: one that is missing, lost, of the wrong kind, or written by another VM.

Called by the VMI's plan. Pure. Each wait names the claim and the remedy; it ends by itself when the cause is mended, as
a change of a claim, or of the VMI that has it, brings the plan to look again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvedge.controller.vmi.launcher_pod_status import SYNCHRONIZED
from kvedge.resources.meta import Condition
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.resources.volume_facts import claims, is_hotpluggable

# KubeVirt's word, by which it tells a VM's state ErrorPvcNotFound.
NOT_FOUND: Final = "FailedPvcNotFound"
LOST: Final = "PVCLost"
WRONG_MODE: Final = "PVCWrongMode"
NOT_POPULATED: Final = "PVCNotPopulated"
REASONS: Final = frozenset({NOT_FOUND, LOST, WRONG_MODE, NOT_POPULATED})
# Who fills a DataVolume's claim says by this annotation that it is full.
_FILLING: Final = "cdi.kubevirt.io/storage.pod.phase"
_POD_SCHEDULED: Final = "PodScheduled"


@dataclass(frozen=True, slots=True)
class ClaimView:
    """The claims of a VMI's namespace that it names and that there are, by name."""

    found: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimWait:
    """Why no launcher is started yet: the VMI's condition Synchronized, what its user is told once, and PodScheduled
    where KubeVirt sets that as well.
    """

    failure: Condition
    warning: Condition
    unscheduled: Condition | None = None


def claim_wait(vmi: VirtualMachineInstance, view: ClaimView) -> ClaimWait | None:
    """The first thing that keeps the launcher from being started, or None."""
    return next(_waits(vmi, view), None)


def needed_claims(vmi: VirtualMachineInstance) -> Sequence[tuple[Volume, str]]:
    """The volumes whose claims must be there before the launcher is, with the claims' names."""
    return [(volume, name) for volume, name in claims(vmi.spec.volumes) if not is_hotpluggable(volume)]


def _waits(vmi: VirtualMachineInstance, view: ClaimView) -> Iterator[ClaimWait]:
    for volume, name in needed_claims(vmi):
        claim = view.found.get(name)
        if claim is None:
            yield _not_found(vmi, volume, name)
        elif claim.status.phase == "Lost":
            lost = f"its volume {claim.spec.volume_name} is gone" if claim.spec.volume_name else "its volume is gone"
            text = (
                f"PVC {name} of volume {volume.name} is Lost: {lost}, and the data with it unless somebody has kept"
                " that; restore the PersistentVolume, or delete the claim and make it anew"
            )
            yield _wait(LOST, text)
        elif not _is_populated(claim):
            yield _wait(NOT_POPULATED, f"PVC {name} of volume {volume.name} is being filled by its DataVolume")
        elif _is_lun(vmi, volume.name) and not claim.is_block:
            text = (
                f"device {volume.name} is of type lun. Not compatible with a file based disk: PVC {name} has"
                " volumeMode Filesystem; use disk instead of lun, or a claim with volumeMode Block"
            )
            yield _wait(WRONG_MODE, text)


def _is_populated(claim: PersistentVolumeClaim) -> bool:
    """Whether nobody fills the claim any more: an image that is half there is no disk."""
    owner = claim.metadata.controller_reference()
    if owner is None or owner.kind != "DataVolume":
        return True
    return claim.metadata.annotations.get(_FILLING) == "Succeeded"


def _not_found(vmi: VirtualMachineInstance, volume: Volume, name: str) -> ClaimWait:
    namespace = vmi.metadata.namespace
    scheduled = Condition(
        type=_POD_SCHEDULED, status="False", reason="Unschedulable", message=f"didn't find PVC {name}"
    )
    remedy = f"volume {volume.name} needs it: create it, and the VM starts by itself"
    if volume.data_volume is not None:
        remedy = f"volume {volume.name} needs the claim of DataVolume {name}: create that, and the VM starts by itself"
    text = f"PVC {namespace}/{name} does not exist, waiting for it to appear"
    failure = Condition(type=SYNCHRONIZED, status="False", reason=NOT_FOUND, message=f"{text}; {remedy}")
    warning = Condition(type=SYNCHRONIZED, status="False", reason=NOT_FOUND, message=text)
    return ClaimWait(failure, warning, scheduled)


def _wait(reason: str, text: str) -> ClaimWait:
    failure = Condition(type=SYNCHRONIZED, status="False", reason=reason, message=text)
    return ClaimWait(failure, failure)


def _is_lun(vmi: VirtualMachineInstance, volume: str) -> bool:
    return any(disk.name == volume and disk.lun is not None for disk in vmi.spec.domain.devices.disks)
