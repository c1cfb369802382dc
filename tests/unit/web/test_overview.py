"""The console's first page: what the nodes have, what is used, and what the user's rights leave of it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from kvedge.client.session import Session
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.core import Node
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.web.overview import read_overview, rooms_of, uses_of, wishes_of
from tests.support.builders import small_vmi


def node(name: str, *, ready: bool = True, **allocatable: str) -> Node:
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return decode(Node, {"metadata": {"name": name}, "status": {"allocatable": allocatable, "conditions": conditions}})


def vmi(node_name: str = "a", phase: str = "Running", **spec: Any) -> VirtualMachineInstance:
    return decode(VirtualMachineInstance, small_vmi(**spec) | {"status": {"nodeName": node_name, "phase": phase}})


class WatchedVmi(VirtualMachineInstance, weakref=True):
    """One of which is known how long it is held."""


def watched(memory: JsonObject) -> WatchedVmi:
    status = {"nodeName": "a", "phase": "Running"}
    return decode(WatchedVmi, small_vmi(domain__memory=memory) | {"status": status})


def test_of_many_guests_no_two_are_held() -> None:
    """The sums are made of each as it comes, whatever the server's pages are."""
    alive: list[weakref.ref[WatchedVmi]] = []

    def come() -> Iterator[WatchedVmi]:
        for _ in range(10):
            found = watched({"guest": "1Mi"})
            alive.append(weakref.ref(found))
            yield found
            del found
            assert sum(each() is not None for each in alive) <= 1

    assert wishes_of(come()) == {"count": 10, "cpu": 10_000, "memory": 10 << 20}


def test_only_ready_nodes_have_room() -> None:
    nodes = [node("a", cpu="3500m", memory="2Gi"), node("b", cpu="4", memory="1Gi"), node("c", ready=False, cpu="64")]
    assert rooms_of(nodes) == {"count": 3, "ready": 2, "cpu": 7500, "memory": 3 << 30}


def test_what_a_server_measures_is_summed_and_what_is_none_is_left_out() -> None:
    items: list[Any] = [{"usage": {"cpu": "1200m", "memory": "100Mi"}}, {"usage": {"cpu": "?", "memory": "1Mi"}}, 7, {}]
    assert uses_of({"items": items}) == {"cpu": 1200, "memory": 101 << 20}
    assert uses_of({}) == uses_of([]) == {"cpu": 0, "memory": 0}


def test_guests_that_have_no_node_or_have_ended_take_nothing() -> None:
    running = vmi(domain__cpu={"cores": 2}, domain__memory={"guest": "256Mi"})
    assert wishes_of([running, vmi(node_name=""), vmi(phase="Succeeded")]) == {
        "count": 1,
        "cpu": 2000,
        "memory": 256 << 20,
    }


class PlayedClient:
    """Lists nothing but what it was given; a kind that is refused is refused."""

    def __init__(self, refused: frozenset[type]) -> None:
        self._refused = refused

    def hurry(self, seconds: float) -> PlayedClient:
        return self

    def each(self, cls: type, *_: object) -> Iterator[Any]:
        if cls in self._refused:
            raise Forbidden(403, "Forbidden", "you may not")
        yield from ()

    def get(self, *_: object) -> Any:
        raise Forbidden(403, "Forbidden", "you may not")

    def request(self, method: str, path: str) -> JsonObject:
        raise NotFound(404, "NotFound", "no such kind")


def test_what_the_user_may_not_see_is_left_out() -> None:
    session: Any = Session(**{**_fields(), "client": PlayedClient(frozenset({Node}))})
    found = read_overview(session, None)
    assert (found["nodes"], found["used"], found["alarms"]) == (None, None, None)
    assert found["guests"]["count"] == 0


def test_without_metrics_the_page_says_that_nobody_measures() -> None:
    session: Any = Session(**{**_fields(), "client": PlayedClient(frozenset())})
    found = read_overview(session, None)
    assert (found["nodes"]["count"], found["used"]) == (0, None)
    assert found["tasks"] == {"rows": [], "more": 0}


def _fields() -> dict[str, Any]:
    names = Session.__struct_fields__
    return {name: SimpleNamespace() for name in names} | {"namespace": "shop"}
