"""What handlers write about a migration into the VMI: merge patches, each bound to the version that was read.

Made by the steps of source and target. Pure. Which handler writes what, `MigrationState` tells.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from kvedge.kube.patches import MergePatch, at_version
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.moved_volumes import VOLUMES_CHANGE, as_moved
from kvedge.resources.meta import Condition
from kvedge.resources.names import LAUNCHER_SILENT, MIGRATION_TARGET_NODE, NODE_NAME
from kvedge.resources.phases import check_transition
from kvedge.resources.types.migrations import AbortStatus
from kvedge.resources.types.vmi import PhaseTransition, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339

PRE_COPY = "PreCopy"
# The guest's CPUs stand while it moves.
STOPPED = "Paused"
_PAUSED = "Paused"
_BY_USER = "PausedByUser"


def is_paused_by_user(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest is to stay paused where it comes to."""
    return any(
        item.type == _PAUSED and item.status == "True" and item.reason == _BY_USER for item in vmi.status.conditions
    )


def paused_by_user() -> Condition:
    """The condition of a guest that a user has paused."""
    return Condition(type=_PAUSED, status="True", reason=_BY_USER, message="VMI was paused by user")


def begin_patch(vmi: VirtualMachineInstance, now: datetime) -> MergePatch:
    """The guest may move from now on."""
    return _state_patch(vmi, {"startTimestamp": rfc3339(now), "mode": PRE_COPY})


def abort_patch(vmi: VirtualMachineInstance, status: AbortStatus) -> MergePatch:
    """How far it is that the guest stays because somebody wants it to."""
    return _state_patch(vmi, {"abortStatus": status})


def stopped_patch(vmi: VirtualMachineInstance) -> MergePatch:
    """The guest was stopped on its way, so that it gets there."""
    return _state_patch(vmi, {"mode": STOPPED})


def stay_patch(vmi: VirtualMachineInstance, reason: str, status: AbortStatus, now: datetime) -> MergePatch:
    """The guest stays where it is."""
    return _state_patch(vmi, _failure(reason, now) | ({"abortStatus": status} if status else {}))


def left_patch(vmi: VirtualMachineInstance, *, paused: bool, status: AbortStatus, now: datetime) -> MergePatch:
    """Nothing of the guest is left on its node; `paused`: a user had paused it, and so it stays where it goes on."""
    changes: JsonObject = {"sourceNodeDomainGoneTimestamp": rfc3339(now)}
    if status:
        changes["abortStatus"] = status
    body: JsonObject = {"migrationState": changes}
    if paused != is_paused_by_user(vmi):
        others = [item for item in vmi.status.conditions if item.type != _PAUSED]
        stamped = msgspec.structs.replace(
            paused_by_user(), last_transition_time=rfc3339(now), last_probe_time=rfc3339(now)
        )
        body["conditions"] = [encode(item) for item in [*others, *([stamped] if paused else [])]]
    return at_version({"status": body}, vmi.metadata.resource_version)


def address_patch(vmi: VirtualMachineInstance, address: str) -> MergePatch:
    """Where the guest is to come to."""
    return _state_patch(vmi, {"targetNodeAddress": address})


def detection_patch(vmi: VirtualMachineInstance) -> MergePatch:
    """The guest is on its way."""
    return _state_patch(vmi, {"targetNodeDomainDetected": True})


def exchange_patch(vmi: VirtualMachineInstance, taken: datetime | None = None) -> MergePatch:
    """The guest has the claims from now on that its disks were copied to; and, with `taken`, the one that the state of
    its TPM and firmware was brought to.
    """
    moved = as_moved(vmi)
    body: JsonObject = {
        "spec": {"volumes": [encode(volume) for volume in moved.spec.volumes]},
        "status": {"volumeStatus": [encode(entry) for entry in moved.status.volume_status]},
    }
    if taken is not None:
        body["status"]["migrationState"] = {"targetTakenTimestamp": rfc3339(taken)}
    return at_version(body, vmi.metadata.resource_version)


def adoption_patch(vmi: VirtualMachineInstance, node: str, now: datetime) -> MergePatch:
    """The guest is this node's: one write, so that nobody ever reads a half of it."""
    state = vmi.status.migration_state
    assert state is not None
    status: JsonObject = {
        **_enter_running(vmi, now),
        "nodeName": node,
        "migrationState": {
            "targetNodeDomainDetected": True,
            "targetNodeDomainReadyTimestamp": rfc3339(now),
            "endTimestamp": rfc3339(now),
            "completed": True,
        },
    }
    if vmi.status.evacuation_node_name == state.source_node:
        status["evacuationNodeName"] = None
    # That was said of the launcher before: of this one it would end the guest. And volumes change no more.
    over = {item.type for item in vmi.status.conditions if item.reason == LAUNCHER_SILENT}
    over |= {VOLUMES_CHANGE} if vmi.status.migrated_volumes else set()
    kept = [item for item in vmi.status.conditions if item.type not in over]
    if len(kept) < len(vmi.status.conditions):
        status["conditions"] = [encode(item) for item in kept]
    labels = {NODE_NAME: node, MIGRATION_TARGET_NODE: None}
    if vmi.status.migrated_volumes:
        status["migratedVolumes"] = None
    return at_version({"metadata": {"labels": labels}, "status": status}, vmi.metadata.resource_version)


def _enter_running(vmi: VirtualMachineInstance, now: datetime) -> JsonObject:
    """Of a guest that comes from another box: here it was in none of the phases before."""
    if vmi.status.phase != "WaitingForSync":
        return {}
    phase = check_transition(vmi.status.phase, "Running")
    entry = PhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(now))
    entries = [*vmi.status.phase_transition_timestamps, entry]
    return {"phase": phase, "phaseTransitionTimestamps": [encode(item) for item in entries]}


def loss_patch(vmi: VirtualMachineInstance, reason: str, now: datetime) -> MergePatch:
    """The guest is nowhere: its run has failed."""
    phase = check_transition(vmi.status.phase, "Failed")
    entry = PhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(now))
    status: JsonObject = {
        "phase": phase,
        "reason": reason,
        "phaseTransitionTimestamps": [encode(item) for item in [*vmi.status.phase_transition_timestamps, entry]],
        "migrationState": _failure(reason, now),
    }
    return at_version({"status": status}, vmi.metadata.resource_version)


def _failure(reason: str, now: datetime) -> JsonObject:
    return {"failed": True, "completed": True, "endTimestamp": rfc3339(now), "failureReason": reason}


def _state_patch(vmi: VirtualMachineInstance, changes: JsonObject) -> MergePatch:
    return at_version({"status": {"migrationState": changes}}, vmi.metadata.resource_version)
