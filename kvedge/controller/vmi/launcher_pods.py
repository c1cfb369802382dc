"""The launcher Pods of a VMI: one as a rule, and two while its guest moves to another node.

Called by the plans of VMIs, of hotplugged volumes and of migrations. Pure. The Pod that a guest is to come to holds no
guest before its handler has taken the VMI over, and the one that it has left holds none after that: one Pod is the
launcher at any time.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vmi.launcher_pod_status import has_ended, may_still_run
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MIGRATION_JOB_UID
from kvedge.resources.types.vmi import VirtualMachineInstance


def launcher_of(vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> Pod | None:
    """The Pod that has the guest, or is to start it: a living Pod before an ended one, and of several the oldest."""
    state, node = vmi.status.migration_state, vmi.status.node_name
    if state is not None and state.migration_uid:
        found = [pod for pod in pods if pod.metadata.name == launcher_name(vmi)]
    else:
        # A guest that nobody has handed over yet comes to none of those that wait for one.
        there = [pod for pod in pods if node and pod.spec.node_name == node]
        # Somebody may have removed what the VMI says of its migrations: its node tells.
        found = there or [pod for pod in pods if not is_target(pod)]
    return min(found, key=lambda pod: (is_over(pod), pod.metadata.creation_timestamp or ""), default=None)


def target_of(vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> Pod | None:
    """The Pod that the guest comes to by the migration that is handed over, or None."""
    state = vmi.status.migration_state
    if state is None or not state.target_pod:
        return None
    return next((pod for pod in pods if pod.metadata.name == state.target_pod), None)


def is_target(pod: Pod) -> bool:
    """Whether a Pod was made for a guest that comes from another node."""
    return MIGRATION_JOB_UID in pod.metadata.labels


def awaits_guest(vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> bool:
    """Whether there is a Pod that the guest is to come to, also before the migration is handed over."""
    state, launcher = vmi.status.migration_state, launcher_of(vmi, pods)
    left = "" if state is None else state.source_pod
    return any(
        is_target(pod) and not is_over(pod) and pod is not launcher and pod.metadata.name != left for pod in pods
    )


def is_over(pod: Pod) -> bool:
    """Whether nothing new begins in a Pod: it has ended, or is told to."""
    return pod.metadata.deletion_timestamp is not None or has_ended(pod)


def is_moving(vmi: VirtualMachineInstance) -> bool:
    """Whether a migration is handed over and nobody has recorded how it ended."""
    state = vmi.status.migration_state
    return state is not None and state.is_open


def has_moved(vmi: VirtualMachineInstance) -> bool:
    """Whether the latest migration has brought the guest to the node that the VMI is on.

    One write says both. `completed` alone is nobody's word: the guest is where it was.
    """
    state = vmi.status.migration_state
    return (
        state is not None and state.completed and not state.failed and state.target_node == vmi.status.node_name != ""
    )


def is_off(pod: Pod | None, node: NodeState | None, *, was_ended: bool) -> bool:
    """Whether it is proven that nothing of a launcher runs any more. `pod` is None for a Pod that is not in the API.

    A Pod that is merely missing proves nothing. Its kubelet's word does, also an earlier one, and the word of an
    administrator, who deletes the Node or declares it out of service, or that of a node which has fenced itself.
    """
    is_given_up = node is None or node.is_given_up
    if pod is None:
        return was_ended or is_given_up
    return has_ended(pod) and (is_given_up or not may_still_run(pod))


def list_over(vmi: VirtualMachineInstance, launcher: Pod | None, pods: Sequence[Pod]) -> list[Pod]:
    """The Pods beside the launcher's in which nothing can run any more; none while it is open where the guest is."""
    if is_moving(vmi) and not vmi.is_final:
        return []
    return [pod for pod in pods if pod is not launcher and has_ended(pod) and not may_still_run(pod)]


def list_active(vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> dict[str, str]:
    """`status.activePods`: the Pods that have not ended, by UID, with their nodes.

    The launcher's stays when it has ended: by it the handler finds how its guest did. While the guest moves, a Pod that
    is missing stays as well: that proves nothing.
    """
    launcher, known = launcher_of(vmi, pods), {pod.metadata.uid: pod for pod in pods}
    before = vmi.status.active_pods
    made = {
        uid: node
        for uid, node in before.items()
        if uid not in known and (node == vmi.status.node_name or is_moving(vmi))
    }
    for uid, pod in known.items():
        if pod is launcher or not has_ended(pod) or may_still_run(pod):
            made[uid] = pod.spec.node_name or before.get(uid, "")
    return made


def launcher_name(vmi: VirtualMachineInstance) -> str:
    """What the Pod is called that has the guest, also when it is not in the API any more."""
    state = vmi.status.migration_state
    if state is None or not state.migration_uid:
        return launcher_pod_name(vmi)
    return state.target_pod if has_moved(vmi) else state.source_pod
