"""Events of a Node for background work that failed, so that users hear of it without reading logs.

A part of the handler and of the node agent; records Events, and sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable

from kvedge.kube.events import EventRecorder
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node
from kvedge.runtime.background import on_trouble


class NodeTroubles:
    """Listens from its start to its stop. Of two in one process, the first one tells of all roles' work."""

    def __init__(self, events: EventRecorder, node: str) -> None:
        self._events = events
        self._node = self.name_node(node)
        self._forget: Callable[[], None] | None = None

    @staticmethod
    def name_node(node: str) -> Node:
        """What an Event is of: it carries the Node's name as the UID, as those of a kubelet do."""
        return Node(metadata=ObjectMeta(name=node, uid=node))

    def start(self) -> None:
        """Begin to listen."""
        self._forget = on_trouble(self._tell)

    def stop(self) -> None:
        """Listen no more."""
        if self._forget is not None:
            self._forget()
            self._forget = None

    def _tell(self, work: str, what: str) -> None:
        self._events.record(self._node, "Warning", "BackgroundWorkFailed", f"{work}: {what}; it begins anew")
