"""Admission of NICs that passt speaks for."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.builders import put, small_vmi
from tests.support.reviews import request

AT = "spec.domain.devices.interfaces[0]"
OFF = Configuration(gates=FeatureGates(disabled=frozenset({"PasstBinding"})))


def causes(nic: dict[str, Any], configuration: Configuration = DEFAULTS, **network: Any) -> list[tuple[str, str]]:
    vmi = small_vmi()
    put(vmi, AT, {"name": "default", **nic})
    if network:
        put(vmi, "spec.networks[0]", {"name": "default", **network})
    verdict = plan_verdict(request(vmi), Cluster("amd64", configuration))
    return [(str(cause.field), cause.message) for cause in verdict.causes]


def test_passt_is_there_unless_its_gate_is_off() -> None:
    nic = {"passtBinding": {}, "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}], "state": "down"}
    assert causes(nic) == []
    assert causes(nic, OFF) == [(f"{AT}.name", "PasstBinding feature gate is not enabled")]


@pytest.mark.parametrize(
    ("nic", "network", "field", "words"),
    [
        ({}, {"multus": {"networkName": "lan"}}, "name", "PasstBinding interface only implemented with pod network"),
        ({"masquerade": {}}, {}, "", "must have exactly one binding method"),
        ({"dhcpOptions": {"ntpServers": ["10.0.0.1"]}}, {}, "dhcpOptions", "passt answers the guest's DHCP"),
        ({"portRanges": [{"start": 1, "end": 2, "protocol": "TCP"}]}, {}, "portRanges", "PortRangesSpec"),
        ({"state": "absent"}, {}, "state", "supported only for bridge binding"),
    ],
    ids=["another network", "two bindings", "DHCP options", "ranges", "absent"],
)
def test_what_passt_cannot_do_is_refused_by_its_field(
    nic: dict[str, Any], network: dict[str, Any], field: str, words: str
) -> None:
    found = causes({"passtBinding": {}, **nic}, **network)
    wanted = f"{AT}.{field}" if field else AT
    assert [words in message for at, message in found if at == wanted][:1] == [True], found
