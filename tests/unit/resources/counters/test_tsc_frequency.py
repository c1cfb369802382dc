"""Which guests count on the frequency of their node's counter, and what they are told."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.counters.tsc_frequency import (
    INVTSC,
    REENLIGHTENMENT,
    choose_frequency,
    find_clock_field,
    find_range,
    find_told_frequency,
)
from kvedge.resources.types.vmi import TopologyHints
from tests.support.builders import vmi_with

HYPERV: dict[str, Any] = {"features": {"hyperv": {"reenlightenment": {}}}}


@pytest.mark.parametrize(
    ("domain", "field"),
    [
        ({}, ""),
        ({"cpu": {"features": [{"name": "aes"}, {"name": "invtsc"}]}}, INVTSC),
        ({"cpu": {"features": [{"name": "invtsc", "policy": "force"}]}}, INVTSC),
        ({"cpu": {"features": [{"name": "invtsc", "policy": "optional"}]}}, ""),
        (HYPERV, REENLIGHTENMENT),
        ({"features": {"hyperv": {"reenlightenment": {"enabled": False}, "relaxed": {}}}}, ""),
    ],
)
def test_guests_that_count_on_the_counter_are_known_by_their_field(domain: Any, field: str) -> None:
    assert find_clock_field(vmi_with({"domain": domain}).spec.domain) == field


def test_a_run_was_told_what_its_status_says_and_only_where_its_guest_counts_on_it() -> None:
    vmi = vmi_with({"domain": HYPERV})
    assert find_told_frequency(vmi) is None
    for said, told in ((2_000, 2_000), (0, None), (None, None)):
        vmi.status.topology_hints = TopologyHints(tsc_frequency=said)
        assert find_told_frequency(vmi) == told
    other = vmi_with({})
    other.status.topology_hints = TopologyHints(tsc_frequency=2_000)
    assert find_told_frequency(other) is None


def labels(hertz: str, scalable: str = "true") -> dict[str, str]:
    name = "cpu-timer.node.kubevirt.io/tsc-"
    return {f"{name}frequency": hertz, f"{name}scalable": scalable}


@pytest.mark.parametrize(
    ("node", "chosen"),
    [
        (labels("3000000000"), 2_000_000_000),
        (labels("3000000000", "false"), 3_000_000_000),
        (labels("fast"), None),
        (labels("-1"), None),
        (labels("99999999"), None),
        (labels("9" * 40), None),
        ({}, None),
    ],
    ids=["can have less", "cannot", "no number", "below nothing", "too slow for any", "too much", "not told"],
)
def test_a_guest_is_told_the_lowest_frequency_that_its_node_can_have(node: dict[str, str], chosen: int | None) -> None:
    assert (
        choose_frequency(node, [node, labels("2000000000", "false"), labels("99999999"), labels("slow"), {}]) == chosen
    )


def test_a_node_that_is_alone_is_the_measure() -> None:
    assert choose_frequency(labels("3000000000"), []) == 3_000_000_000


def test_counters_within_250_parts_in_a_million_pass_for_the_same() -> None:
    assert find_range(1_000_000) == (999_749, 1_000_251)
