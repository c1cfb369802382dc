"""What a handler tells the other box of a guest that moves between them, and what it writes of what it hears.

Called by both sides' crossing steps. Pure: the VMI goes in, words or a merge patch come out, each bound to the version
that was read. Words are made of what the VMI says, so that a handler which starts anew says the same.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from kvedge.handler.migration.copied_claims import copied_bytes
from kvedge.handler.migration.migration_patches import is_paused_by_user
from kvedge.kube.patches import MergePatch, at_version, merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.moves.crossing import SourceWords, TargetWords, is_crossing_id
from kvedge.resources.types.migrations import MigrationState, PeerState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339

_LONGEST_REASON = 1024


def words_of_source(vmi: VirtualMachineInstance, state: MigrationState) -> SourceWords:
    """What the target is to know."""
    return SourceWords(
        node=state.source_node,
        disks=copied_bytes(vmi),
        images={entry.name: entry.size for entry in vmi.status.volume_status if entry.size > 0},
        paused=is_paused_by_user(vmi),
        started=state.start_timestamp,
        gone=state.source_node_domain_gone_timestamp,
        failed=state.failed,
        reason=state.failure_reason,
        # Said before the VMI's end is written, with which the VMI may go.
        over=not state.is_open or state.target_taken_timestamp is not None,
    )


def words_of_target(vmi: VirtualMachineInstance, state: MigrationState, node: str) -> TargetWords:
    """What the source is to know."""
    return TargetWords(
        node=node,
        uid=vmi.metadata.uid,
        ready=bool(state.target_node_address),
        detected=state.target_node_domain_detected,
        taken=state.target_taken_timestamp,
        failed=state.failed,
        reason=state.failure_reason,
        unwanted=state.abort_requested or vmi.metadata.deletion_timestamp is not None,
        heard_end=state.failed,
    )


def heard_source_patch(
    vmi: VirtualMachineInstance, state: MigrationState, words: SourceWords, now: datetime
) -> MergePatch | None:
    """Write down what the source has said; None when nothing of it is new.

    Disks and images stay as they were first told: the launcher has made room for these.
    """
    peer = state.source_state or PeerState()
    if not peer.node:
        peer = PeerState(node=words.node, disks=words.disks, images=words.images)
    peer = msgspec.structs.replace(peer, paused=words.paused, over=words.over)
    heard = msgspec.structs.replace(state, source_state=peer)
    if state.is_open:
        heard = msgspec.structs.replace(
            heard,
            start_timestamp=state.start_timestamp or words.started,
            source_node_domain_gone_timestamp=state.source_node_domain_gone_timestamp or words.gone,
        )
        if words.failed:
            heard = _end_as_failed(heard, words.reason, now)
    return _patch(vmi, state, heard)


def heard_target_patch(vmi: VirtualMachineInstance, state: MigrationState, words: TargetWords) -> MergePatch | None:
    """Write down what the target has said; None when nothing of it is new, or nothing is open any more.

    That it has taken the guest counts only once the guest has left: nobody says so before.
    """
    peer = state.target_state
    if peer is None or not state.is_open:
        return None
    told = msgspec.structs.replace(
        peer,
        node=words.node,
        # It stands in paths of the guest's document.
        virtual_machine_instance_uid=words.uid if is_crossing_id(words.uid) else "",
        unwanted=words.unwanted,
        failed=words.failed,
        reason=words.reason[:_LONGEST_REASON],
    )
    has_left = state.source_node_domain_gone_timestamp is not None
    heard = msgspec.structs.replace(
        state,
        target_state=told,
        target_node_address=peer.sync_address if words.ready else state.target_node_address,
        target_node_domain_detected=state.target_node_domain_detected or words.detected,
        target_taken_timestamp=state.target_taken_timestamp or (words.taken if has_left else None),
    )
    return _patch(vmi, state, heard)


def taken_patch(vmi: VirtualMachineInstance, now: datetime) -> MergePatch:
    """On the target: the guest is this box's from now on, whatever becomes of it."""
    body = {"status": {"migrationState": {"targetTakenTimestamp": rfc3339(now)}}}
    return at_version(body, vmi.metadata.resource_version)


def moved_patch(vmi: VirtualMachineInstance, now: datetime) -> MergePatch:
    """On the source: the guest is the other box's, as that has said."""
    body = {"status": {"migrationState": {"completed": True, "endTimestamp": rfc3339(now)}}}
    return at_version(body, vmi.metadata.resource_version)


def _end_as_failed(state: MigrationState, reason: str, now: datetime) -> MigrationState:
    return msgspec.structs.replace(
        state, failed=True, completed=True, end_timestamp=rfc3339(now), failure_reason=reason[:_LONGEST_REASON]
    )


def _patch(vmi: VirtualMachineInstance, before: MigrationState, after: MigrationState) -> MergePatch | None:
    changes = merge_difference(encode(before), encode(after))
    if not changes:
        return None
    return at_version({"status": {"migrationState": changes}}, vmi.metadata.resource_version)
