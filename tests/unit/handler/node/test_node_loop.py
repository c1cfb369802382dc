"""What the handler says of its node's bridges, and that one has gone."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import MagicMock

from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.node_loop import NodeLoop
from kvedge.handler.node.node_manifest import NodeCapabilities
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node
from tests.support.clocks import FakeClock

LAN, OTHER = "bridge.node.kvedge.io/br-lan", "bridge.node.kvedge.io/br-other"


class PlayedCluster:
    """One Node and its events."""

    def __init__(self, **labels: str) -> None:
        self.node = Node(metadata=ObjectMeta(name="edge-1", labels=labels))
        self.patched: dict[str, Any] = {}
        self.events: list[tuple[str, str]] = []

    def get(self, *rest: Any) -> Node:
        return self.node

    def patch(self, kind: Any, namespace: str, name: str, patch: Any) -> None:
        self.patched = patch.body["metadata"]["labels"]

    def record(self, item: Node, kind: str, reason: str, text: str) -> None:
        self.events.append((reason, text))


def written(cluster: PlayedCluster, *bridges: str) -> dict[str, Any]:
    """The labels of one write."""
    platform = MagicMock(capabilities=NodeCapabilities(), accelerator=Accelerator(emulation=True, detail="tcg"))
    client, events = cast(KubeClient, cluster), cast(EventRecorder, cluster)
    loop = NodeLoop(client, "edge-1", platform, lambda: "a:1", str, FakeClock(), events, lambda: bridges)
    assert loop._write(schedulable=True)
    return cluster.patched


def test_a_node_says_which_bridges_it_has_and_takes_back_those_that_went() -> None:
    cluster = PlayedCluster(**{OTHER: "true"})
    found = written(cluster, "br-lan")
    assert (found[LAN], found[OTHER]) == ("true", None)
    [(reason, text)] = cluster.events
    assert reason == "BridgeGone"
    assert text.startswith("bridge br-other is no longer on this node")


def test_nothing_is_told_while_all_bridges_are_there() -> None:
    cluster = PlayedCluster(**{LAN: "true"})
    assert LAN not in written(cluster, "br-lan")
    assert cluster.events == []
