"""Looks after nodes whose handler says nothing, and tells the loop of VMIs what became of a node.

Run by the controller role. Reads Nodes from an informer, asks :func:`plan_node`, and writes one label and one event.
What a node's state means for its VMIs is for their plan.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from kvedge.controller.node.node_plan import UNRESPONSIVE, NodeState, node_state, plan_node
from kvedge.kube.errors import NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import Patch, at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.counters.tsc_frequency import choose_frequency
from kvedge.resources.names import HEARTBEAT, SCHEDULABLE, VERSION
from kvedge.resources.types.core import Node
from kvedge.runtime.clock import Clock
from kvedge.runtime.heartbeat_book import HeartbeatBook

log = logging.getLogger(__name__)

# A server that lives sends a watch something each minute, a bookmark at least.
_BLIND_SECONDS: Final = 120.0


class NodeSources(Struct, frozen=True):
    """The informer and writers that the loop works with."""

    client: KubeClient
    nodes: Informer[Node]
    events: EventRecorder
    clock: Clock
    # Whether Medik8s has reset a node.
    is_reset: Callable[[str], bool] = lambda name: False


class NodeLoop:
    """One reconcile loop over all nodes."""

    def __init__(self, sources: NodeSources) -> None:
        self._client = sources.client
        self._nodes = sources.nodes
        self._events = sources.events
        self._clock = sources.clock
        self._is_reset = sources.is_reset
        self._book = HeartbeatBook()
        self._told: dict[str, NodeState] = {}
        self._callbacks: list[Callable[[str], None]] = []
        self.loop = ReconcileLoop("node", self.reconcile)

    def start(self) -> None:
        """Begin to work on all nodes there are."""
        self._nodes.on_change(self._on_node)
        self.loop.start()

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call with the name of each node whose state has changed; call it before :meth:`start`."""
        self._callbacks.append(callback)

    def state(self, name: str) -> NodeState | None:
        """What a node is now; None for one that is not there."""
        node = self._nodes.get("", name)
        return None if node is None else node_state(node, self._silent_seconds(name), is_reset=self._is_reset(name))

    def choose_tsc_frequency(self, name: str) -> int | None:
        """In Hz, for a guest that starts on a node; None where the node tells none."""
        node = self._nodes.get("", name)
        if node is None:
            return None
        return choose_frequency(node.metadata.labels, (each.metadata.labels for each in self._nodes.list()))

    def look_at(self, name: str) -> None:
        """Something is said of a node elsewhere."""
        self.loop.add(Key("", name))

    def has_schedulable(self) -> bool:
        """Whether any node's handler is there to take a VM."""
        ready = [node.metadata.name for node in self._nodes.list() if node.metadata.labels.get(SCHEDULABLE) == "true"]
        states = [self.state(name) for name in ready]
        return any(state is not None and not state.unresponsive for state in states)

    def versions(self) -> Mapping[str, str]:
        """The versions of all handlers, by their nodes' names; empty for one that does not tell."""
        ours = [node.metadata for node in self._nodes.list() if SCHEDULABLE in node.metadata.labels]
        return {metadata.name: metadata.annotations.get(VERSION, "") for metadata in ours}

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one node."""
        node = self._nodes.get(*key)
        if node is None:
            return None
        now = self._clock.monotonic()
        if self._nodes.silent_seconds() > _BLIND_SECONDS:
            self._book.note_blindness(now)
        plan = plan_node(node, self._book.silent_seconds(key.name, now))
        if plan.patch is not None:
            self._mark(node, at_version(plan.patch, node.metadata.resource_version), plan.warning)
        self._tell(key.name)
        return None if plan.again_after is None else Again(plan.again_after)

    def _mark(self, node: Node, patch: Patch, warning: str) -> None:
        name = node.metadata.name
        try:
            patched = self._client.patch(Node, "", name, patch)
        except NotFound:
            return
        self._nodes.observe(patched)
        log.warning("node unresponsive", extra={"facts": {"node": name}})
        self._events.record(node, "Warning", UNRESPONSIVE, warning)

    def _tell(self, name: str) -> None:
        state = self.state(name)
        if state is None or self._told.get(name) == state:
            return
        self._told[name] = state
        for callback in self._callbacks:
            callback(name)

    def _silent_seconds(self, name: str) -> float | None:
        return self._book.silent_seconds(name, self._clock.monotonic())

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        item = new or old
        assert item is not None
        name = item.metadata.name
        if new is None:
            self._book.forget(name)
            self._told.pop(name, None)
            for callback in self._callbacks:
                callback(name)
            return
        self._book.note(name, new.metadata.annotations.get(HEARTBEAT, ""), self._clock.monotonic())
        self.loop.add(Key("", name))
