"""Whether a migration that is pending may begin, and what its user is told while it may not.

Called by the migrations' plan and their loop. Pure. Without a word a migration would seem to hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.controller.migrations.crossing_plan import explain_reception
from kvedge.controller.migrations.migration_view import MigrationView, Told
from kvedge.controller.migrations.target_attachments import find_unsettled
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.launcher_pods import launcher_of
from kvedge.resources.disks.state_claims import moved_claim_of
from kvedge.resources.evacuation import LIVE_MIGRATABLE
from kvedge.resources.meta import condition
from kvedge.resources.moves.crossing_rules import find_crossing_refusal
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance

WAITS: Final = "MigrationWaits"


def find_refusal(vmi: VirtualMachineInstance) -> str | None:
    """Why a VMI cannot move; empty when it can, None while its handler has not said."""
    found = condition(vmi.status.conditions, LIVE_MIGRATABLE)
    if found is None:
        return None
    if found.status == "True":
        return ""
    return f"Cannot migrate VMI, Reason: {found.reason}, Message: {found.message}"


def is_ready_to_begin(view: MigrationView) -> bool:
    """Whether only the limits keep a migration that is pending from its Pod."""
    vmi, migration = view.vmi, view.migration
    if vmi is not None and migration.spec.receive is not None:
        return migration.status.phase == "Pending" and not explain_reception(view)
    if vmi is None or vmi.status.phase != "Running" or vmi.metadata.deletion_timestamp is not None:
        return False
    state, source = vmi.status.migration_state, launcher_of(vmi, view.pods)
    is_free = state is None or not state.is_open
    return (
        migration.status.phase == "Pending"
        and migration.metadata.deletion_timestamp is None
        and is_free
        and source is not None
        and not has_ended(source)
        and source.metadata.deletion_timestamp is None
        and (find_refusal(vmi) if migration.spec.send_to is None else find_crossing_refusal(vmi)) == ""
        and not find_rests(vmi, view.pods)
        and not find_unsettled(vmi)
        # The VMI is about to name the claim that its TPM has come to: the word for that goes with the next hand-over.
        and not moved_claim_of(vmi.metadata, vmi)
    )


def find_rests(vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> list[Pod]:
    """Pods beside the launcher's that have not ended: what is left of an earlier migration."""
    launcher = launcher_of(vmi, pods)
    return [pod for pod in pods if pod is not launcher and not has_ended(pod)]


def explain_wait(view: MigrationView) -> Told | None:
    """What keeps a migration from its Pod; None where nothing does, or what does is over within moments."""
    vmi = view.vmi
    if vmi is None or vmi.metadata.deletion_timestamp is not None:
        return None
    node = vmi.status.node_name
    if vmi.status.phase != "Running":
        return _say(f"the VMI is {vmi.status.phase or 'Pending'}: its guest moves once it runs")
    refusal = find_refusal(vmi) if view.migration.spec.send_to is None else find_crossing_refusal(vmi)
    if refusal is None:
        return _explain_silence(view, node)
    if rests := find_rests(vmi, view.pods):
        return _say(f"pod {rests[0].metadata.name} of an earlier migration has not ended yet")
    if unsettled := find_unsettled(vmi):
        return _say(unsettled)
    if is_ready_to_begin(view) and not view.has_turn:
        return _say(
            "other migrations are first: parallelMigrationsPerCluster is reached, or"
            f" parallelOutboundMigrationsPerNode on node {node}"
        )
    return None


def _explain_silence(view: MigrationView, node: str) -> Told:
    version = view.versions.get(node, "")
    text = f"the handler of node {node} has not said whether the guest can move"
    if version == view.version:
        return _say(text)
    said = f"it has version {version}" if version else "it tells no version"
    return Told("Warning", WAITS, f"{text}: {said}, this controller {view.version}; upgrade the node")


def _say(text: str) -> Told:
    return Told("Normal", WAITS, text)
