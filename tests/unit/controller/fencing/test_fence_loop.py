"""A silent node is declared fenced once, on the version that was silent, and its guests are gone from then on."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.fencing.fence_loop import FenceLoop, FenceSources
from kvedge.kube.work_queue import Key
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.node_loss.fence_terms import FenceTerms
from kvedge.resources.node_loss.node_lease import NODES_NAMESPACE, NodeFence, lease_name, new_lease
from kvedge.resources.types.core import ConfigMap, Node
from tests.support.clocks import FakeClock
from tests.support.played_leases import PlayedLeases
from tests.unit.controller.migrations.small_server import Cache

FENCE = NodeFence("n", "boot", "timer", FenceTerms(), frozenset({"a"}))
KEY = Key(NODES_NAMESPACE, lease_name("n"))


class Server(PlayedLeases):
    """Leases, and what is written of Nodes."""

    nodes: list[tuple[str, Any]]

    def patch(self, cls: type, namespace: str, name: str, patch: Any) -> Any:
        if cls is Node:
            self.nodes.append((name, patch.body))
            return None
        return super().patch(cls, namespace, name, patch)


class World:
    """A controller, its cache of leases, and the server."""

    def __init__(self) -> None:
        self.server, self.cache, self.clock, self.events = Server(), Cache(), FakeClock(), MagicMock()
        self.server.nodes = []
        self.server.create(new_lease(FENCE))
        self.cache.observe = lambda item: self.cache.hear(item, gone=False)  # type: ignore[method-assign]
        sources: Any = (self.server, self.cache, self.events, self.clock)
        self.loop = FenceLoop(FenceSources(*sources))
        self.changed: list[str] = []
        self.loop.on_change(self.changed.append)
        self.hear()

    def hear(self) -> None:
        self.cache.hear(self.server.get(ConfigMap, "", KEY.name), gone=False)

    def wait(self, seconds: float) -> None:
        self.loop.reconcile(KEY)
        self.clock.seconds += seconds
        self.loop.reconcile(KEY)


@pytest.fixture
def world() -> World:
    return World()


def test_a_silent_node_is_fenced_after_its_term_and_no_launcher_comes_there(world: World) -> None:
    again = world.loop.reconcile(KEY)
    assert again is not None
    world.wait(119.0)
    assert world.server.fence("n").promised == {"a"}
    world.wait(1.0)
    assert world.server.fence("n").gone == {"a"}
    assert world.server.nodes == [("n", {"metadata": {"labels": {SCHEDULABLE: "false"}}})]
    assert world.events.record.call_args.args[2] == "NodeFenced"
    assert world.loop.is_gone("n", "a")
    assert not world.loop.is_gone("n", "b")
    assert world.changed == ["n"]


def test_a_renewal_that_nobody_has_heard_of_has_the_last_word(world: World) -> None:
    world.loop.reconcile(KEY)
    world.server.touch(KEY.name)
    world.wait(1000.0)
    assert world.server.fence("n").promised == {"a"}
    assert world.server.nodes == []


def test_each_renewal_begins_the_time_anew(world: World) -> None:
    world.wait(100.0)
    world.server.touch(KEY.name)
    world.hear()
    world.wait(100.0)
    assert world.server.fence("n").promised == {"a"}


def test_a_controller_that_starts_anew_begins_the_time_anew(world: World) -> None:
    world.wait(119.0)
    other = FenceLoop(FenceSources(world.server, world.cache, world.events, world.clock))  # type: ignore[arg-type]
    world.clock.seconds += 1.0
    other.reconcile(KEY)
    assert world.server.fence("n").promised == {"a"}


def test_a_node_that_is_back_has_the_word_although_the_cache_is_old(world: World) -> None:
    world.wait(120.0)
    world.server.items[KEY.name].metadata.annotations.pop("kvedge.io/gone-vmis")
    assert not world.loop.is_gone("n", "a")


def test_what_a_user_may_wait_for_is_the_term_of_the_node(world: World) -> None:
    assert "120 s" in world.loop.describe_wait("n", "a")
    assert world.loop.describe_wait("n", "b") == ""
    assert world.loop.describe_wait("another", "a") == ""


def test_a_lease_that_went_is_no_proof(world: World) -> None:
    world.cache.hear(world.server.get(ConfigMap, "", KEY.name), gone=True)
    assert world.loop.reconcile(KEY) is None
    assert world.loop.list_fences() == []
