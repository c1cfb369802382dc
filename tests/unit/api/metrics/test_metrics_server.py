"""One collection for all who scrape; nodes that do not answer are told by a series, and tell of their guests alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kvedge.api.metrics.metrics_server import MetricsServer
from kvedge.api.metrics.role_collector import RoleCollector
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.api.subresources.status_message import Refusal
from kvedge.resources.codec import decode, encode_json
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.guest_stats import GuestStats, NodeStats
from tests.support.builders import small_vmi
from tests.unit.api.metrics.test_exposition import read_back

Answer = Callable[[], Awaitable[bytes]]


class Cluster:
    """A cluster with VMIs on nodes, whose relays answer as given."""

    def __init__(self, homes: dict[str, str], **relays: Answer) -> None:
        self.homes, self.answers = homes, relays
        self.asked: list[str] = []

    async def read_objects(self) -> SeenObjects:
        return SeenObjects(vmis=[self._vmi(name, node) for name, node in self.homes.items()])

    async def read_homes(self) -> dict[tuple[str, str], str]:
        return {("default", name): node for name, node in self.homes.items()}

    def _vmi(self, name: str, node: str) -> VirtualMachineInstance:
        document = small_vmi()
        document["metadata"]["name"] = name
        document["status"] = {"phase": "Running", "nodeName": node}
        return decode(VirtualMachineInstance, document)

    async def relays(self) -> dict[str, str]:
        return {node: f"{node}:1" for node in self.answers}

    async def may_list(self, user: object, resource: str) -> bool:
        return True

    async def ask_node(self, node: str, address: str) -> bytes:
        assert address == f"{node}:1"
        self.asked.append(node)
        return await self.answers[node]()

    def server(self, now: list[float] | None = None) -> MetricsServer:
        clock = now or [100.0]
        return MetricsServer(
            self,
            self.read_objects,
            self.read_homes,
            self.ask_node,
            RoleCollector(self.relays, self.ask_node, "", self.read_objects),
            lambda: None,
            Configuration,
            lambda: clock[0],
        )


def telling(*names: str) -> Answer:
    """A node that tells of these guests."""
    guests = [GuestStats(namespace="default", name=name, answered=True, complete=True) for name in names]

    async def answer() -> bytes:
        return encode_json(NodeStats(guests=guests))

    return answer


async def refuse() -> bytes:
    raise Refusal(503, "gone")


async def talk_nonsense() -> bytes:
    return b"[]"


def scrape(cluster: Cluster, what: str = "") -> dict[str, Any]:
    return read_back(asyncio.run(cluster.server().collect(what)).decode())


def test_nodes_with_guests_are_asked_and_those_that_do_not_tell_are_told_by_a_series() -> None:
    homes = {"a": "n1", "b": "n2", "c": "n3", "d": "n4"}
    found = scrape(Cluster(homes, n1=telling("a"), n2=refuse, n3=talk_nonsense, idle=refuse))
    up = {labels["node"]: value for labels, value in found["kvedge_node_stats_up"]}
    assert up == {"n1": 1.0, "n2": 0.0, "n3": 0.0, "n4": 0.0}
    assert [labels["name"] for labels, _ in found["kvedge_vmi_stats_up"]] == ["a"]
    assert [labels["name"] for labels, _ in found["kubevirt_vmi_info"]] == ["a", "b", "c", "d"]


def test_what_guests_use_is_told_without_any_object_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({"a": "n1", "b": "n2"}, n1=telling("a"), n2=refuse)
    everything = scrape(cluster)
    monkeypatch.setattr(cluster, "read_objects", None)
    found = scrape(cluster, "guests")
    assert {"kvedge_node_stats_up", "kvedge_vmi_stats_up"} <= set(found) < set(everything)
    assert not any(name.startswith("kubevirt_vmi_info") for name in found)
    assert all(found[name] == everything[name] for name in found)


@pytest.mark.parametrize("what", ["", "guests"])
def test_a_node_tells_of_its_own_guests_alone(what: str) -> None:
    found = scrape(Cluster({"a": "n1", "b": "n2"}, n1=telling("a", "b", "ghost"), n2=telling()), what)
    assert [(labels["node"], labels["name"]) for labels, _ in found["kvedge_vmi_stats_up"]] == [("n1", "a")]


def test_all_who_scrape_within_a_second_share_one_collection() -> None:
    cluster, now = Cluster({"a": "n1"}, n1=telling("a")), [100.0]

    async def test() -> None:
        server = cluster.server(now)
        await asyncio.gather(*(server.collect() for _ in range(20)))
        await server.collect()
        assert cluster.asked == ["n1"]
        now[0] += 1.0
        await server.collect()
        assert cluster.asked == ["n1", "n1"]

    asyncio.run(test())
