"""Simulated nodes: what scheduler, kubelet and handler write when a launcher Pod runs, and nothing runs.

For measuring what a cluster's controllers cost at sizes that no single machine can hold. Figures that depend on these
say "simulated" in their names.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.resources.codec import encode
from kvedge.resources.meta import condition
from kvedge.resources.names import COMPUTE_CONTAINER, UNPAUSED_GATE
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import PhaseTransition, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339

_WORKERS = 8
_NODE = "/api/v1/nodes"


class SimulatedNodes:
    """So many nodes, played by a few threads with one client."""

    def __init__(self, client: KubeClient, count: int) -> None:
        self._client = client
        self._names = [f"simulated-{number:04}" for number in range(count)]
        self._next = itertools.cycle(self._names)
        self._pods = Informer(client, Pod, label_selector="kubevirt.io=virt-launcher")
        self._vmis = Informer(client, VirtualMachineInstance)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"simulated-{number}", daemon=True) for number in range(_WORKERS)
        ]

    def start(self) -> None:
        """Make the Node objects and begin to play."""
        now = rfc3339(datetime.now(UTC))
        for name in self._names:
            labels = {"kubevirt.io/schedulable": "true", "kubernetes.io/arch": "amd64"}
            meta = {"name": name, "labels": labels, "annotations": {"kubevirt.io/heartbeat": now}}
            self._client.request("POST", _NODE, {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        for thread in self._threads:
            thread.start()
        self._pods.on_change(self._pod_changed)
        self._vmis.on_change(self._vmi_changed)
        self._pods.start()
        self._vmis.start()
        if not (self._pods.wait_synced(30) and self._vmis.wait_synced(30)):
            raise TimeoutError("the API server did not list Pods and VMIs")

    def stop(self) -> None:
        """Stop playing."""
        self._pods.stop()
        self._vmis.stop()
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (task := self._work.get()) is not None:
            try:
                task()
            except NotFound:
                continue
            except KubeError as error:
                print(f"simulated node: {error}")

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        if new.metadata.deletion_timestamp is not None:
            self._work.put(lambda: self._client.delete(Pod, new.metadata.namespace, new.metadata.name, grace_seconds=0))
        elif old is None and not new.spec.node_name:
            self._work.put(lambda: self._starts(new))
        elif _is_open(new) and (old is None or not _is_open(old)):
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            self._work.put(lambda: self._patch_pod(new, ready))

    def _vmi_changed(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        if new is None:
            return
        if new.metadata.deletion_timestamp is not None and not new.is_final:
            if new.status.phase in ("Scheduled", "Running") and (
                old is None or old.metadata.deletion_timestamp is None
            ):
                self._work.put(lambda: self._enters(new, "Succeeded"))
        elif new.status.phase == "Scheduled" and (old is None or old.status.phase != "Scheduled"):
            self._work.put(lambda: self._enters(new, "Running"))

    def _starts(self, pod: Pod) -> None:
        meta = pod.metadata
        target = {"apiVersion": "v1", "kind": "Node", "name": next(self._next)}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta.name}, "target": target}
        self._client.request("POST", f"{Pod.KIND.path(meta.namespace, meta.name)}/binding", binding)
        state = {"running": {"startedAt": rfc3339(datetime.now(UTC))}}
        container = {"name": COMPUTE_CONTAINER, "ready": True, "restartCount": 0, "image": "i", "imageID": ""}
        self._patch_pod(pod, {"phase": "Running", "containerStatuses": [{**container, "state": state}]})

    def _patch_pod(self, pod: Pod, status: dict[str, object]) -> None:
        patch = StrategicPatch({"status": status})
        self._client.patch(Pod, pod.metadata.namespace, pod.metadata.name, patch, "status")

    def _enters(self, vmi: VirtualMachineInstance, phase: str) -> None:
        entry = PhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(datetime.now(UTC)))
        passed = [encode(item) for item in (*vmi.status.phase_transition_timestamps, entry)]
        patch = MergePatch({"status": {"phase": phase, "phaseTransitionTimestamps": passed}})
        self._client.patch(VirtualMachineInstance, vmi.metadata.namespace, vmi.metadata.name, patch)


def _is_open(pod: Pod) -> bool:
    gate = condition(pod.status.conditions, UNPAUSED_GATE)
    return gate is not None and gate.status == "True"
