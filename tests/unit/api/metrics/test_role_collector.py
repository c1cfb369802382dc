"""Handlers are asked, and this process is told of beside them."""

from __future__ import annotations

import asyncio
from typing import Any

from kvedge.api.metrics.role_collector import RoleCollector
from kvedge.api.subresources.status_message import Refusal
from kvedge.kube.figures.process_figures import tell_process
from kvedge.resources.codec import encode_json
from kvedge.resources.usage.role_stats import RoleStats
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


def collect(ask_node: Any) -> dict[str, Any]:
    return read_back(asyncio.run(RoleCollector(relays, ask_node, "here").collect()).decode())


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
