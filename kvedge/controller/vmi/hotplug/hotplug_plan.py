"""What has to be done about the hotplugged volumes of one VMI now: their attachment Pods, and their status.

Called by the hotplug loop. Pure. Each volume is judged by itself: a claim that is missing or a Pod that is refused
holds up no other. The phases are KubeVirt's; the controller writes those up to AttachedToNode and those of the end, the
handler MountedToPod, Ready and UnMountedFromPod. A Pod goes only when the handler has said UnMountedFromPod, or was
never told of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, field

from kvedge.controller.claim_copy import claim_info
from kvedge.controller.vmi.claim_rules import IN_USE, NOT_FOUND, NOT_POPULATED, filling_words, in_use
from kvedge.controller.vmi.hotplug.attachment_pod_manifest import (
    attachment_pod,
    attachment_pod_name,
    is_ours,
    is_ready,
)
from kvedge.controller.vmi.launcher_pod_status import has_ended, has_ready_containers
from kvedge.controller.vmi.launcher_pods import is_moving
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.configuration.support_containers import Support
from kvedge.resources.disks.claim_facts import is_populated
from kvedge.resources.disks.hotplug_places import ATTACHED_TO_NODE, BOUND, DETACHING, HANDED_OVER, PENDING
from kvedge.resources.disks.moved_volumes import attached_volumes
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.meta import condition
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import HotplugVolumeStatus, VirtualMachineInstance, VolumeStatus

_NOT_READY: Final = "PVCNotReady"
_CREATED: Final = "SuccessfulCreate"
_DELETED: Final = "SuccessfulDelete"
_REFUSED: Final = "FailedCreate"
# The scheduler's reason.
_UNSCHEDULABLE: Final = "Unschedulable"
_LONGEST: Final = 512


class PatchStatus(Struct, frozen=True):
    """Change the VMI; `body` is a merge patch for the version that was read. `news` are events: reason and message."""

    body: JsonObject
    news: tuple[tuple[str, str], ...] = ()


class CreateAttachment(Struct, frozen=True):
    """Hold a claim on the launcher's node, for this volume."""

    volume: str
    pod: Pod


class DeleteAttachment(Struct, frozen=True):
    """Let a claim go; `volume` is the one that comes back with another Pod as soon as its claim is filled."""

    pod: Pod
    volume: str = ""


HotplugAction: TypeAlias = PatchStatus | CreateAttachment | DeleteAttachment


class HotplugView(Struct, frozen=True):
    """A VMI, its launcher Pod, the Pods whose controller is this very launcher Pod, the VMI's claims by name, and for
    each volume whose Pod was refused why, and that it is not to be tried again yet. `holders` are the VMIs that keep
    this one from claims which it does not have yet, by claim. `cdi` is the CDIConfig, None while it is not known.
    `left` are those of other launchers, in which nothing runs any more. `support` is what the KubeVirt object says of
    the Pods' CPU and memory.
    """

    vmi: VirtualMachineInstance
    launcher: Pod | None
    pods: Sequence[Pod] = ()
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    holders: Mapping[str, VirtualMachineInstance] = field(default_factory=dict)
    cdi: CdiConfig | None = None
    left: Sequence[Pod] = ()
    support: Support = field(default_factory=dict)


def plan_hotplug(view: HotplugView) -> tuple[HotplugAction, ...]:
    """What to do, in order."""
    vmi = view.vmi
    if is_moving(vmi) and not vmi.is_final:
        # The guest is made on another node with the volumes that it has: until that is over none comes or goes.
        return ()
    left = tuple(DeleteAttachment(pod) for pod in view.left if not _is_going(pod))
    if vmi.is_final or (view.launcher is not None and has_ended(view.launcher)):
        return (*(DeleteAttachment(pod) for pod in view.pods if not _is_going(pod)), *left)
    return (*_plan_volumes(view), *left)


def _plan_volumes(view: HotplugView) -> tuple[HotplugAction, ...]:
    vmi = view.vmi
    if (
        not attached_volumes(vmi)
        and not view.pods
        and not any(entry.hotplug_volume for entry in vmi.status.volume_status)
    ):
        return ()
    entries, news = _entries(view)
    status = tuple(_patch(vmi, entries, news))
    return (*status, *_deletions(view, entries), *_creations(view))


def is_active(launcher: Pod | None) -> bool:
    """Whether a launcher takes volumes: it runs, and nobody has asked it to end."""
    return (
        launcher is not None and not _is_going(launcher) and not has_ended(launcher) and has_ready_containers(launcher)
    )


def _patch(
    vmi: VirtualMachineInstance, entries: list[VolumeStatus], news: Sequence[tuple[str, str]]
) -> Iterator[PatchStatus]:
    after = msgspec.structs.replace(vmi.status, volume_status=entries)
    body = merge_difference(encode(vmi.status), encode(after))
    if body:
        yield PatchStatus({"status": body}, tuple(news))


def _entries(view: HotplugView) -> tuple[list[VolumeStatus], list[tuple[str, str]]]:
    """The status as it is to be, sorted by name, and what its user should hear."""
    wanted = {volume.name: claim_of(volume) or "" for volume in attached_volumes(view.vmi)}
    there = {entry.name: entry for entry in view.vmi.status.volume_status}
    made: list[VolumeStatus] = []
    news: list[tuple[str, str]] = []
    for name in sorted({*there, *wanted}):
        entry = there.get(name) or VolumeStatus(name=name, target="")
        if name in wanted:
            after: VolumeStatus | None = _plan_present(view, entry, wanted[name])
        elif entry.hotplug_volume is not None:
            after = _plan_leaving(view, entry)
        else:
            after = entry
        if after is None:
            continue
        made.append(after)
        if after.reason != entry.reason and after.reason in (_CREATED, _DELETED):
            news.append((after.reason, after.message))
    return made, news


def _plan_present(view: HotplugView, entry: VolumeStatus, claim_name: str) -> VolumeStatus:
    """The entry of a volume that is in the spec."""
    claim = view.claims.get(claim_name)
    pod = _pod(view, attachment_pod_name(view.vmi, entry.name, claim_name, view.launcher), claim)
    held = entry.persistent_volume_claim_info
    info = held if claim is None else claim_info(claim, view.cdi, held)
    if entry.phase in HANDED_OVER and held is not None and held.claim_name not in ("", claim_name):
        # The guest still has the disk of another claim under this name: that one leaves first.
        return entry
    changed = msgspec.structs.replace(
        entry, persistent_volume_claim_info=info, hotplug_volume=_attachment(entry, pod, claim)
    )
    if entry.phase in HANDED_OVER:
        return changed
    phase, reason, message = _progress(view, entry.name, claim_name, claim, pod)
    if phase == entry.phase == ATTACHED_TO_NODE and _UNSCHEDULABLE not in (reason, entry.reason):
        # The handler may have said since why it cannot take the volume.
        return changed
    return msgspec.structs.replace(changed, phase=phase, reason=reason, message=message)


def _attachment(entry: VolumeStatus, pod: Pod | None, claim: PersistentVolumeClaim | None) -> HotplugVolumeStatus:
    """The Pod, with its UID once the handler may take the volume from it."""
    if pod is None:
        return HotplugVolumeStatus()
    if claim is None:
        known = entry.hotplug_volume is not None and entry.hotplug_volume.attach_pod_uid == pod.metadata.uid
        is_usable = is_ready(pod) and entry.phase in HANDED_OVER and known
    else:
        is_usable = is_ready(pod) and (entry.phase in HANDED_OVER or is_populated(claim))
    return HotplugVolumeStatus(attach_pod_name=pod.metadata.name, attach_pod_uid=pod.metadata.uid if is_usable else "")


def _progress(
    view: HotplugView, volume: str, claim_name: str, claim: PersistentVolumeClaim | None, pod: Pod | None
) -> tuple[str, str, str]:
    """Phase, reason and message of a volume that the guest does not have yet."""
    if claim is None:
        return PENDING, NOT_FOUND, f"PVC {claim_name} not found; create it, and it is attached by itself"
    if claim.status.phase == "Lost":
        text = "PVC is in phase Lost; restore its PersistentVolume, or remove the volume and add another claim"
        return PENDING, _NOT_READY, text
    holder = view.holders.get(claim_name)
    if pod is None and holder is not None:
        phase = BOUND if claim.status.phase == "Bound" else PENDING
        return phase, IN_USE, in_use(volume, claim_name, holder, "it is attached")
    trouble = "" if pod is None else _scheduling_trouble(pod)
    if trouble and claim.status.phase == "Bound":
        return ATTACHED_TO_NODE, _UNSCHEDULABLE, trouble
    if trouble:
        # The scheduler knows that it is not bound, and whoever makes volumes knows why: their place is full, mostly.
        return PENDING, _UNSCHEDULABLE, f"{trouble} PVC {claim_name} is not bound: its events say what it lacks"
    if claim.status.phase != "Bound":
        return PENDING, _NOT_READY, "PVC is in phase ClaimPending"
    name = attachment_pod_name(view.vmi, volume, claim_name, view.launcher)
    if pod is None and _find_live(view, name) is not None:
        return BOUND, _REFUSED, f"Pod {name} is not the one that kvedge makes for volume {volume}: delete it"
    if pod is not None and is_populated(claim):
        return ATTACHED_TO_NODE, _CREATED, f"Created hotplug attachment pod {pod.metadata.name}, for volume {volume}"
    refusal = view.refusals.get(volume)
    if pod is None and refusal is not None:
        return BOUND, _REFUSED, refusal
    if not is_populated(claim):
        return BOUND, NOT_POPULATED, filling_words(volume, claim, "it is attached")
    return BOUND, _NOT_READY, "PVC is in phase Bound"


def _scheduling_trouble(pod: Pod) -> str:
    """Why the Pod runs nowhere, in the scheduler's words; a volume of another node, mostly."""
    found = condition(pod.status.conditions, "PodScheduled")
    if found is None or (found.status, found.reason) != ("False", _UNSCHEDULABLE):
        return ""
    words = found.message[:_LONGEST] or "nobody says why"
    return f"Attachment pod {pod.metadata.name} cannot run on the VM's node: {words}"


def _plan_leaving(view: HotplugView, entry: VolumeStatus) -> VolumeStatus | None:
    """The entry of a volume that is no longer in the spec; None when everything is undone."""
    attachment = entry.hotplug_volume or HotplugVolumeStatus()
    if entry.phase in HANDED_OVER:
        return entry
    if entry.phase == ATTACHED_TO_NODE and attachment.attach_pod_uid:
        # The handler may have begun: it says UnMountedFromPod when there is nothing of it.
        return entry
    pod = next((pod for pod in view.pods if pod.metadata.name == attachment.attach_pod_name), None)
    if pod is None:
        return None
    if not _is_going(pod):
        return entry if entry.phase == DETACHING else msgspec.structs.replace(entry, phase=DETACHING)
    message = f"Deleted hotplug attachment pod {pod.metadata.name}, for volume {entry.name}"
    return msgspec.structs.replace(entry, phase=DETACHING, reason=_DELETED, message=message)


def _deletions(view: HotplugView, entries: Sequence[VolumeStatus]) -> Iterator[DeleteAttachment]:
    """Pods that have ended, and those that nobody needs any more, or not yet."""
    needed = {name for name, _, _ in _list_wanted_attachments(view)}
    given = set()
    for entry in entries:
        if entry.hotplug_volume is not None and entry.phase != DETACHING:
            needed.add(entry.hotplug_volume.attach_pod_name)
            if entry.phase in HANDED_OVER:
                given.add(entry.hotplug_volume.attach_pod_name)
        info = entry.persistent_volume_claim_info
        if entry.phase in HANDED_OVER and info is not None:
            # The one that was made for a Pod that was lost, and of which the status does not tell yet.
            needed.add(attachment_pod_name(view.vmi, entry.name, info.claim_name, view.launcher))
    # A Pod that was its claim's first consumer has done its work: the worker may have to be alone with the claim.
    early = {
        name: volume
        for name, volume, claim in _list_wanted_attachments(view)
        if name not in given and claim is not None and _is_being_filled(claim)
    }
    for pod in view.pods:
        name = pod.metadata.name
        if not _is_going(pod) and (name not in needed or name in early or pod.status.phase in FINAL_POD_PHASES):
            yield DeleteAttachment(pod, early.get(name, ""))


def _creations(view: HotplugView) -> Iterator[CreateAttachment]:
    launcher = view.launcher
    if launcher is None or not is_active(launcher) or view.vmi.metadata.deletion_timestamp is not None:
        return
    there = {pod.metadata.name for pod in view.pods}
    for name, volume, claim in _list_wanted_attachments(view):
        if name in there or volume in view.waiting or claim is None or claim.metadata.deletion_timestamp is not None:
            continue
        if claim.metadata.name in view.holders:
            continue
        # A claim that waits for its first consumer gets it; a claim that is being filled is left to its worker.
        if claim.status.phase == "Lost" or _is_being_filled(claim):
            continue
        yield CreateAttachment(volume, attachment_pod(view.vmi, volume, claim, launcher, view.support))


def _is_being_filled(claim: PersistentVolumeClaim) -> bool:
    return claim.status.phase == "Bound" and not is_populated(claim)


def _list_wanted_attachments(view: HotplugView) -> Iterator[tuple[str, str, PersistentVolumeClaim | None]]:
    """The Pod's name, the volume and the claim of each hotplugged volume in the spec."""
    for volume in attached_volumes(view.vmi):
        claim = claim_of(volume) or ""
        name = attachment_pod_name(view.vmi, volume.name, claim, view.launcher)
        yield name, volume.name, view.claims.get(claim)


def _pod(view: HotplugView, name: str, claim: PersistentVolumeClaim | None) -> Pod | None:
    """Our Pod of that name, unless it has ended or is about to. Another maker's Pod is none.

    Without its claim nobody can tell, and no new UID is given.
    """
    pod = _find_live(view, name)
    return None if pod is None or (claim is not None and not is_ours(pod, claim)) else pod


def _find_live(view: HotplugView, name: str) -> Pod | None:
    pods = (pod for pod in view.pods if pod.metadata.name == name)
    return next((pod for pod in pods if not _is_going(pod) and pod.status.phase not in FINAL_POD_PHASES), None)


def _is_going(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
