"""The scheduler of one box: binds Pods to its node, or says why they wait.

Started by the node agent, with the informers it shares with the kubelet's loop. Binding is one call, to the `binding`
subresource.
"""

from __future__ import annotations

import threading
from datetime import datetime

from msgspec import Struct, field

from kvedge.kube.errors import Conflict, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key, WorkQueue
from kvedge.resources.codec import encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.resources.values.quantities import QuantityError
from kvedge.runtime.clock import Clock, rfc3339
from kvedge.standalone.agent.node.autostart_plan import autostart_turn
from kvedge.standalone.agent.node.claim_schedule_plan import ClaimVerdict, Storage, judge_claims
from kvedge.standalone.agent.node.schedule_plan import fit_reasons, unschedulable_message
from kvedge.standalone.volumes.volume_words import SELECTED_NODE

SCHEDULERS = ("", "default-scheduler")
# A node may change in ways that no object tells: what waits is looked at again.
_LOOK_AGAIN = 30.0


class FollowedStorage(Struct, frozen=True):
    """What the scheduler sees of claims and their volumes."""

    claims: Informer[PersistentVolumeClaim]
    volumes: Informer[PersistentVolume]
    classes: Informer[StorageClass]

    def lookup(self) -> Storage:
        """The same for the plan."""
        return Storage(
            claim=self.claims.get,
            volume=lambda name: self.volumes.get("", name),
            storage_class=lambda name: self.classes.get("", name),
        )


class SchedulerLoop(Struct):
    """Binds the Pods of all namespaces to one node."""

    node_name: str
    client: KubeClient
    pods: Informer[Pod]
    nodes: Informer[Node]
    storage: FollowedStorage
    events: EventRecorder
    clock: Clock
    queue: WorkQueue
    # When the node agent started: VMs with an order start one after the other then.
    began: datetime
    # How many CPUs of the node are for guests that have them for themselves.
    cpu_pool: int = 0
    # Bound a moment ago, before the informer tells of it: they take room already. By UID.
    _assumed: dict[str, Pod] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """The informer's callback: a new Pod, or room that has become free."""
        if new is not None and not new.spec.node_name:
            self.queue.add(Key(new.metadata.namespace, new.metadata.name))
            return
        known = new or old
        if known is not None:
            with self._lock:
                self._assumed.pop(known.metadata.uid, None)
        if new is None or new.status.phase in FINAL_POD_PHASES:
            self._retry_waiting()

    def on_node(self, old: Node | None, new: Node | None) -> None:
        """The informer's callback: what waits may fit now."""
        if new is None or old is None or _differs(old, new):
            self._retry_waiting()

    def on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """The informer's callback: Pods may wait for it."""
        self._retry_waiting()

    def on_class(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """The informer's callback: claims of the class may bind in another way now."""
        self._retry_waiting()

    def reconcile(self, key: Key) -> Again | None:
        """Bind one Pod, or say why not.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        pod = self.pods.get(*key)
        if pod is None or pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        if pod.spec.scheduler_name not in SCHEDULERS or pod.metadata.uid in self._assumed:
            return None
        turn = autostart_turn(pod, self.pods.list(), self.began, self.clock.now())
        if turn is not None:
            self._say_why(pod, turn.reason, "SchedulingGated")
            return Again(turn.seconds)
        with self._lock:
            reasons, claims = self._find_reasons(pod)
            fits = bool(reasons) and not any(reasons)
            if fits and not claims.waits:
                self._assumed[pod.metadata.uid] = pod
        if fits and claims.waits:
            self._bind_claims(claims)
            return Again(_LOOK_AGAIN)
        if reasons and not any(reasons):
            self._bind(pod)
            return None
        self._say_why(pod, unschedulable_message(reasons), "Unschedulable")
        return Again(_LOOK_AGAIN)

    def _bind_claims(self, claims: ClaimVerdict) -> None:
        """Tell claims where their first consumer will be; they are bound then, and the Pod is looked at again."""
        for claim in claims.to_tell:
            meta = claim.metadata
            patch = at_version({"metadata": {"annotations": {SELECTED_NODE: self.node_name}}}, meta.resource_version)
            written = self.client.patch(PersistentVolumeClaim, meta.namespace, meta.name, patch)
            self.storage.claims.observe(written)

    def _find_reasons(self, pod: Pod) -> tuple[list[list[str]], ClaimVerdict]:
        node = self.nodes.get("", self.node_name)
        if node is None:
            return [], ClaimVerdict()
        bound = {item.metadata.uid: item for item in self.pods.list() if item.spec.node_name == self.node_name}
        others = {**self._assumed, **bound}
        neighbours = [item for uid, item in others.items() if uid != pod.metadata.uid]
        claims = judge_claims(pod, node, neighbours, self.storage.lookup())
        try:
            return [[*fit_reasons(pod, node, neighbours, self.cpu_pool), *claims.reasons]], claims
        except QuantityError as error:
            return [[f"node(s) cannot be compared with the Pod's requests: {error}"]], claims

    def _bind(self, pod: Pod) -> None:
        meta = pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node_name},
        }
        try:
            self.client.request("POST", Pod.KIND.path(meta.namespace, meta.name, "binding"), body)
        except (NotFound, Conflict):
            # Deleted, or bound by somebody else: the informer will tell.
            self._unassume(meta.uid)
            return
        except BaseException:
            self._unassume(meta.uid)
            raise
        message = f"Successfully assigned {meta.namespace}/{meta.name} to {self.node_name}"
        self.events.record(pod, "Normal", "Scheduled", message)

    def _unassume(self, uid: str) -> None:
        with self._lock:
            self._assumed.pop(uid, None)

    def _say_why(self, pod: Pod, message: str, reason: str) -> None:
        known = condition(pod.status.conditions, "PodScheduled")
        if known is not None and (known.status, known.message) == ("False", message):
            return
        if reason == "Unschedulable":
            self.events.record(pod, "Warning", "FailedScheduling", message)
        stamp = rfc3339(self.clock.now())
        if known is not None and known.status == "False":
            stamp = known.last_transition_time or stamp
        wanted = Condition(
            type="PodScheduled", status="False", reason=reason, message=message, last_transition_time=stamp
        )
        others = [item for item in pod.status.conditions if item.type != "PodScheduled"]
        change = {"status": {"conditions": [encode(item) for item in (*others, wanted)], "phase": "Pending"}}
        meta = pod.metadata
        patch = at_version(change, meta.resource_version)
        self.pods.observe(self.client.patch(Pod, meta.namespace, meta.name, patch, "status"))

    def _retry_waiting(self) -> None:
        for pod in self.pods.list():
            if not pod.spec.node_name:
                self.queue.add(Key(pod.metadata.namespace, pod.metadata.name))


def _differs(old: Node, new: Node) -> bool:
    """Whether anything changed that Pods are placed by; heartbeats are most of a node's changes."""

    def placement_facts(node: Node) -> tuple[object, ...]:
        conditions = {str(item.get("type")): item.get("status") for item in node.status.conditions}
        return node.metadata.labels, node.spec, node.status.allocatable, conditions

    return placement_facts(old) != placement_facts(new)
