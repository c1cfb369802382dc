"""The attachment Pods on the node that a guest comes to: one for each hotplugged volume that the guest has.

Called by the migrations' plan, again and again until the hand-over. Pure. Volumes may come and go until then: what the
guest has in the version that is handed over is what its target gets. A volume that has not begun to come is left, and
comes where the guest then is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from kvedge.controller.migrations.target_wait import PENDING_SECONDS, Wait, find_wait
from kvedge.controller.vmi.hotplug.attachment_pod_manifest import (
    attachment_pod,
    attachment_pod_name,
    is_ours,
    is_ready,
)
from kvedge.controller.vmi.launcher_pods import is_over
from kvedge.resources.configuration.support_containers import NOTHING_SAID, Support
from kvedge.resources.disks.hotplug_places import ATTACHED_TO_NODE, HANDED_OVER, READY
from kvedge.resources.disks.volume_facts import claim_of, hotplugged_disks, hotplugged_volumes
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.runtime.clock import seconds_since

ATTACHMENT_ENDED: Final = "Migration failed because target attachment pod shutdown during migration"
# In these phases a guest may have the volume, or is about to.
_MAY_HAVE: Final = frozenset({ATTACHED_TO_NODE, *HANDED_OVER})


class Attachments(NamedTuple):
    """What is there for the volumes that the guest has.

    `missing` are the Pods to make. `waits` says in words what keeps the guest from being handed over, and `wait` how
    long it may, or why it is given up; both are empty once all Pods are ready. `uids` are theirs, by volume.
    """

    missing: tuple[Pod, ...] = ()
    waits: str = ""
    wait: Wait = Wait()
    uids: Mapping[str, str] = MappingProxyType({})


def find_unsettled(vmi: VirtualMachineInstance) -> str:
    """What of the guest's disks must come to an end before it moves, in words; empty when nothing must."""
    if vmi.status.fs_freeze_status == "frozen":
        # Its launcher has promised to thaw it.
        return "the guest's file systems are frozen: thaw them, or wait for the snapshot that does"
    if (copy := vmi.status.disk_copy) is not None:
        # Its disks are copied from this node's launcher.
        return f"Waiting for backup {copy.name if copy.backup is None else copy.backup.prefix} to complete"
    wanted = {volume.name: claim_of(volume) for volume in hotplugged_volumes(vmi)}
    for entry in vmi.status.volume_status:
        if entry.hotplug_volume is None or entry.phase not in _MAY_HAVE:
            continue
        info = entry.persistent_volume_claim_info
        if entry.name not in wanted or (info is not None and info.claim_name != wanted[entry.name]):
            return f"hotplugged volume {entry.name} has not left the guest yet: {entry.message or entry.phase}"
        if entry.memory_dump_volume is not None:
            return f"the guest's memory is being dumped to claim {wanted[entry.name]}"
        if entry.phase != READY:
            return f"hotplugged volume {entry.name} has not come to the guest yet: {entry.message or entry.phase}"
    return ""


def look_at_attachments(
    vmi: VirtualMachineInstance,
    target: Pod,
    pods: Sequence[Pod],
    claims: Mapping[str, PersistentVolumeClaim],
    now: datetime,
    support: Support = NOTHING_SAID,
) -> Attachments:
    """What there is, and what is to be made; `pods` are the attachment Pods of `target`, `claims` the VMI's.

    `support` is what the KubeVirt object says of such Pods' CPU and memory.
    """
    unsettled = find_unsettled(vmi)
    if unsettled:
        return _wait_for(unsettled, target, now)
    known = {pod.metadata.name: pod for pod in pods}
    found = Attachments()
    missing: list[Pod] = []
    uids: dict[str, str] = {}
    for volume, claim_name in _list_held(vmi):
        claim = claims.get(claim_name)
        pod = known.get(attachment_pod_name(vmi, volume.name, claim_name, target))
        if claim is None:
            return _wait_for(f"PVC {claim_name} of hotplugged volume {volume.name} is not found", target, now)
        if pod is None:
            missing.append(attachment_pod(vmi, volume.name, claim, target, support))
        elif is_over(pod) or not is_ours(pod, claim):
            text = f"{ATTACHMENT_ENDED}: pod {pod.metadata.name} of volume {volume.name}"
            return Attachments(waits=text, wait=Wait(failure=text))
        elif is_ready(pod):
            uids[volume.name] = pod.metadata.uid
        elif not found.wait.failure:
            text = f"hotplugged volume {volume.name}: pod {pod.metadata.name} is not ready on the target's node"
            found = Attachments(waits=text, wait=find_wait(pod, vmi.metadata.name, now))
    if missing:
        refused = _wait_for(f"pod {missing[0].metadata.name} is not there", target, now)
        found = refused if refused.wait.failure else found
    return found._replace(missing=tuple(missing), uids=uids)


def find_ended(state: MigrationState, pods: Sequence[Pod]) -> str:
    """What is wrong with the Pods that were handed over; empty when nothing is."""
    alive = {pod.metadata.uid for pod in pods if not is_over(pod)}
    lost = next((name for name, uid in sorted(state.target_attachment_pods.items()) if uid not in alive), "")
    return f"{ATTACHMENT_ENDED}: that of volume {lost}" if lost else ""


def _list_held(vmi: VirtualMachineInstance) -> Iterator[tuple[Volume, str]]:
    """The hotplugged volumes that the guest has, and their claims."""
    phases = {entry.name: entry.phase for entry in vmi.status.volume_status}
    for volume in hotplugged_disks(vmi):
        if phases.get(volume.name) == READY:
            yield volume, claim_of(volume) or ""


def _wait_for(what: str, target: Pod, now: datetime) -> Attachments:
    """As long as for the target's own Pod."""
    passed = max(0.0, seconds_since(target.metadata.creation_timestamp, now) or 0.0)
    if passed >= PENDING_SECONDS:
        failure = f"the guest was not ready to move within {PENDING_SECONDS:.0f} s: {what}"
        return Attachments(waits=what, wait=Wait(failure=failure))
    return Attachments(waits=what, wait=Wait(PENDING_SECONDS - passed))
