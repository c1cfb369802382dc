"""Ranges of ports that reach a masqueraded guest."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.builders import put, small_vmi
from tests.support.reviews import request

ALLOWED = Configuration(gates=FeatureGates(enabled=frozenset({"PortRangesSpec"})))
AT = "spec.domain.devices.interfaces[0].portRanges"


def causes(nic: dict[str, Any], configuration: Configuration = ALLOWED) -> list[tuple[str, str]]:
    vmi = small_vmi()
    put(vmi, "spec.domain.devices.interfaces[0]", {"name": "default", **nic})
    verdict = plan_verdict(request(vmi), Cluster("amd64", configuration))
    return [(str(cause.field), cause.message) for cause in verdict.causes]


def ports(start: int, end: int, protocol: str = "TCP") -> dict[str, Any]:
    return {"start": start, "end": end, "protocol": protocol}


def test_ranges_side_by_side_enter() -> None:
    ranges = [ports(90, 100), ports(80, 89), ports(80, 100, "UDP"), ports(443, 443)]
    assert causes({"masquerade": {}, "portRanges": ranges}) == []


def test_the_feature_gate_is_asked_first() -> None:
    (found,) = causes({"bridge": {}, "portRanges": [ports(9, 1)]}, DEFAULTS)
    assert found == (AT, "portRanges is specified on interface but the PortRangesSpec feature gate is not enabled")


@pytest.mark.parametrize(
    ("nic", "field", "words"),
    [
        ({"bridge": {}, "portRanges": [ports(80, 90)]}, AT, "only supported on masquerade interfaces"),
        (
            {"masquerade": {}, "ports": [{"port": 22}], "portRanges": [ports(80, 90)]},
            AT,
            "Cannot define both ports and portRanges",
        ),
        ({"masquerade": {}, "portRanges": [ports(n, n) for n in range(1, 12)]}, AT, "No more than 10 portRanges"),
        ({"masquerade": {}, "portRanges": [ports(0, 9)]}, f"{AT}[0].start", "Start must be a valid port number"),
        ({"masquerade": {}, "portRanges": [ports(9, 65536)]}, f"{AT}[0].end", "End must be a valid port number"),
        ({"masquerade": {}, "portRanges": [ports(9, 8)]}, f"{AT}[0]", "Start must be less than or equal to end"),
        ({"masquerade": {}, "portRanges": [ports(8, 9, "SCTP")]}, f"{AT}[0].protocol", "only TCP or UDP"),
        ({"masquerade": {}, "portRanges": [ports(8, 9), ports(9, 12)]}, AT, "TCP portRanges [8-9] and [9-12] overlap"),
    ],
    ids=["bridge", "both", "many", "start", "end", "backwards", "protocol", "overlap"],
)
def test_what_is_wrong_is_named(nic: dict[str, Any], field: str, words: str) -> None:
    ((at, message),) = causes(nic)
    assert at == field
    assert words in message
