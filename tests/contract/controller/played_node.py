"""The node, played: what scheduler, kubelet and handler write when a launcher Pod runs.

A node cannot be had here (tests/machine has the agent of one box, tests/cluster a kubelet), so this writes what theirs
would, in as few steps.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.resources.codec import encode
from kvedge.resources.meta import condition
from kvedge.resources.names import UNPAUSED_GATE
from kvedge.resources.phases import Phase
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import PhaseTransition, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

NODE = "node-1"


class PlayedNode:
    """One namespace's share of a node."""

    def __init__(self, server: EitherServer, namespace: str) -> None:
        self._server = server
        self._client: KubeClient = server.admin
        self.namespace = namespace

    def pod(self) -> Pod:
        """The one launcher Pod, once it is there."""
        pods = wait_until(lambda: self.pods(), "a launcher Pod")
        assert len(pods) == 1
        return pods[0]

    def pods(self) -> list[Pod]:
        return self._client.list(Pod, self.namespace, "kubevirt.io=virt-launcher")

    def vmi(self, name: str = "web") -> VirtualMachineInstance:
        return self._client.get(VirtualMachineInstance, self.namespace, name)

    def starts(self, pod: Pod) -> None:
        """The Pod is bound and its containers run."""
        if not pod.spec.node_name:
            self._server.bind(pod, NODE)
        running = {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "compute",
                    "ready": True,
                    "restartCount": 0,
                    "image": "i",
                    "imageID": "",
                    "state": {"running": {"startedAt": rfc3339(datetime.now(UTC))}},
                }
            ],
        }
        self._patch_pod(pod, running)

    def reports(self, pod: Pod, phase: str, states: dict[str, dict[str, object]]) -> None:
        """The kubelet reports a Pod and its containers, ready if they run."""
        statuses = [
            {"name": name, "ready": "running" in state, "restartCount": 0, "image": "i", "imageID": "", "state": state}
            for name, state in states.items()
        ]
        self._patch_pod(pod, {"phase": phase, "containerStatuses": statuses})

    def waits(self, pod: Pod, reason: str, message: str) -> None:
        """The Pod's container cannot start yet."""
        state = {"waiting": {"reason": reason, "message": message}}
        status = {"name": "compute", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": state}
        self._patch_pod(pod, {"containerStatuses": [status]})

    def becomes_ready(self, pod: Pod) -> None:
        """The kubelet sees the readiness gate open."""

        def gate_is_open() -> bool:
            conditions = self._client.get(Pod, self.namespace, pod.metadata.name).status.conditions
            gate = condition(conditions, UNPAUSED_GATE)
            return gate is not None and gate.status == "True"

        wait_until(gate_is_open, "the controller opens the Pod's gate")
        self._patch_pod(pod, {"conditions": [{"type": "Ready", "status": "True"}]})

    def runs(self, name: str = "web") -> None:
        """The handler took the VMI over and its guest runs."""
        wait_until(lambda: self.vmi(name).status.phase == "Scheduled", "the VMI is handed over")
        self.enters("Running", name)

    def enters(self, phase: Phase, name: str = "web") -> None:
        """The handler reports a phase."""
        vmi = self.vmi(name)
        entry = PhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(datetime.now(UTC)))
        passed = [encode(item) for item in (*vmi.status.phase_transition_timestamps, entry)]
        body = {"status": {"phase": phase, "phaseTransitionTimestamps": passed}}
        self._client.patch(VirtualMachineInstance, self.namespace, name, MergePatch(body))

    def ends(self, pod: Pod, phase: str = "Succeeded") -> None:
        """The Pod's container has exited."""
        self._patch_pod(pod, {"phase": phase})

    def removes(self, pod: Pod) -> None:
        """The kubelet says that the launcher has ended, then that nothing of the Pod is left."""
        try:
            if self._client.get(Pod, self.namespace, pod.metadata.name).status.phase not in ("Succeeded", "Failed"):
                self.reports(pod, "Failed", {"compute": {"terminated": {"exitCode": 1}}})
        except NotFound:
            return
        self.is_forgotten(pod)

    def is_forgotten(self, pod: Pod) -> None:
        """`kubectl delete pod --force --grace-period=0`, by anybody: what runs goes on."""
        try:
            self._client.delete(Pod, self.namespace, pod.metadata.name, grace_seconds=0)
        except NotFound:
            return

    def _patch_pod(self, pod: Pod, status: dict[str, object]) -> None:
        patch = StrategicPatch({"status": status})
        self._client.patch(Pod, self.namespace, pod.metadata.name, patch, "status")
