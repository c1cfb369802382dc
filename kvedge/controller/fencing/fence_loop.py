"""Follows the leases of nodes that fence themselves, and writes into one whose node has been silent for long enough.

Run by the controller role. Asks `fence_rules`; the write names the version of the lease that was seen all that time, so
that a node which has renewed meanwhile has the last word. The loop of VMIs asks here which guests are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from kvedge.controller.fencing.fence_rules import describe_wait, judge_silence
from kvedge.kube.errors import Conflict, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch, at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.node_loss.node_lease import (
    NODES_NAMESPACE,
    NodeFence,
    declare_gone,
    fence_patch,
    lease_name,
    read_fence,
)
from kvedge.resources.types.core import ConfigMap, Node
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

NODE_FENCED: Final = "NodeFenced"
# A moment after the term: two clocks that read the same need not be the same.
_LATER_SECONDS: Final = 0.1


class FenceSources(Struct, frozen=True):
    """What the loop works with."""

    client: KubeClient
    leases: Informer[ConfigMap]
    events: EventRecorder
    clock: Clock


class FenceLoop:
    """One worker over the leases of all nodes."""

    def __init__(self, sources: FenceSources) -> None:
        """The informer has not been started yet."""
        self._client = sources.client
        self._leases = sources.leases
        self._events = sources.events
        self._clock = sources.clock
        # By the lease's name: the version that was seen last, and since when.
        self._seen: dict[str, tuple[str, float]] = {}
        self._callbacks: list[Callable[[str], None]] = []
        self.loop = ReconcileLoop("fencing", self.reconcile)
        sources.leases.on_change(self._on_lease)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call with the name of each node of which other guests are gone; call it before the work begins."""
        self._callbacks.append(callback)

    def is_gone(self, node: str, vmi_uid: str) -> bool:
        """Whether nothing of a VMI runs on a node, by the lease as the server has it now.

        Raises:
            KubeError: when the server does not say.
        """
        if vmi_uid not in self._find(node).gone:
            return False
        # The cache may be of before the node came back.
        try:
            lease = self._client.get(ConfigMap, NODES_NAMESPACE, lease_name(node))
        except NotFound:
            return False
        self._leases.observe(lease)
        return vmi_uid in read_fence(lease).gone

    def describe_wait(self, node: str, vmi_uid: str) -> str:
        """What the VM's user may wait for while that node is silent; empty for nothing."""
        return describe_wait(self._find(node), vmi_uid)

    def list_fences(self) -> list[NodeFence]:
        """What all leases say."""
        return [read_fence(lease) for lease in self._leases.list()]

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one lease."""
        lease = self._leases.get(*key)
        if lease is None:
            return None
        fence = read_fence(lease)
        verdict = judge_silence(fence, self._count_silence(lease))
        if verdict.declare:
            self._declare(lease, fence)
            return None
        return None if verdict.wait is None else Again(verdict.wait + _LATER_SECONDS)

    def _declare(self, lease: ConfigMap, fence: NodeFence) -> None:
        patch = at_version(fence_patch(declare_gone(fence)), lease.metadata.resource_version)
        try:
            written = self._client.patch(ConfigMap, NODES_NAMESPACE, lease.metadata.name, patch)
        except (Conflict, NotFound):
            # The node lives: its watch will tell.
            return
        self._turn_away(fence.node)
        seconds = fence.terms.gone_after if fence.terms is not None else 0
        text = f"the node has been silent for {seconds} s, and has ended {len(fence.promised)} guests by itself"
        log.warning("node fenced", extra={"facts": {"node": fence.node, "guests": len(fence.promised)}})
        self._events.record(Node(metadata=ObjectMeta(name=fence.node, uid=fence.node)), "Warning", NODE_FENCED, text)
        self._leases.observe(written)

    def _turn_away(self, node: str) -> None:
        """No launcher comes to the node before its handler serves again, which then says so."""
        with suppress(NotFound):
            self._client.patch(Node, "", node, MergePatch({"metadata": {"labels": {SCHEDULABLE: "false"}}}))

    def _find(self, node: str) -> NodeFence:
        lease = self._leases.get(NODES_NAMESPACE, lease_name(node))
        return NodeFence(node) if lease is None else read_fence(lease)

    def _count_silence(self, lease: ConfigMap) -> float:
        """For how long the server has had this very version, as far as was seen here."""
        now, version = self._clock.monotonic(), lease.metadata.resource_version
        seen = self._seen.get(lease.metadata.name)
        if seen is None or seen[0] != version:
            seen = self._seen[lease.metadata.name] = (version, now)
        return now - seen[1]

    def _on_lease(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._seen.pop(item.metadata.name, None)
            return
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))
        before = frozenset() if old is None else read_fence(old).gone
        after = read_fence(new)
        if after.gone != before:
            for callback in self._callbacks:
                callback(after.node)
