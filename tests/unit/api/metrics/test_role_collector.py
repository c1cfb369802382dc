"""Handlers are asked, and this process is told of beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kvedge.api.metrics.role_collector import RoleCollector
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.api.subresources.status_message import Refusal
from kvedge.kube.figures import process_figures
from kvedge.kube.figures.process_figures import tell_process
from kvedge.kube.figures.stream_figures import StreamFigures
from kvedge.resources.codec import decode, encode_json
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.role_stats import RoleStats
from tests.support.builders import small_vmi
from tests.unit.api.metrics.test_exposition import read_back


async def relays() -> dict[str, str]:
    return {"n1": "n1:1", "n2": "n2:1", "n3": "n3:1"}


async def ask(node: str, address: str) -> bytes:
    assert address == f"{node}:1"
    if node == "n1":
        return encode_json(RoleStats(process="other", figures={"process_max_fds": 5}))
    if node == "n2":
        raise Refusal(503, "gone")
    return b"[]"


class Objects:
    """The VMIs that there are, and how often somebody asked."""

    def __init__(self, *vmis: VirtualMachineInstance) -> None:
        self._vmis: Sequence[VirtualMachineInstance] = vmis
        self.asked = 0

    async def read(self) -> SeenObjects:
        self.asked += 1
        return SeenObjects(vmis=self._vmis)


def collect(ask_node: Any, objects: Objects | None = None) -> dict[str, Any]:
    collector = RoleCollector(relays, ask_node, "here", (objects or Objects()).read)
    return read_back(asyncio.run(collector.collect()).decode())


def test_a_handler_that_does_not_answer_is_told_by_a_series() -> None:
    found = collect(ask)
    ready = {labels["node"]: value for labels, value in found["kubevirt_virt_handler_ready_status"]}
    assert ready == {"n1": 1.0, "n2": 0.0, "n3": 0.0}
    assert {labels["node"] for labels, _ in found["process_max_fds"]} == {"n1", "here"}


def test_a_process_with_a_handler_in_it_is_told_of_by_its_node() -> None:
    async def ask_itself(node: str, address: str) -> bytes:
        if node != "n1":
            raise Refusal(503, "gone")
        return encode_json(tell_process())

    assert [labels["node"] for labels, _ in collect(ask_itself)["process_max_fds"]] == ["n1"]


def test_streams_are_told_of_while_their_vmi_is_there_and_objects_are_read_for_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures = StreamFigures()
    monkeypatch.setattr(process_figures, "STREAM_FIGURES", figures)
    document = small_vmi()
    document["metadata"] |= {"namespace": "default", "name": "web", "uid": "1"}
    objects = Objects(decode(VirtualMachineInstance, document))
    assert "kubevirt_console_active_connections" not in collect(ask, objects)
    assert objects.asked == 0
    with figures.count("console", "default", "web", "1"):
        found = collect(ask, objects)["kubevirt_console_active_connections"]
    assert found == [({"node": "here", "namespace": "default", "vmi": "web"}, 1.0)]
    assert objects.asked == 1
    assert "kubevirt_vmi_last_api_connection_timestamp_seconds" not in collect(ask, Objects())
