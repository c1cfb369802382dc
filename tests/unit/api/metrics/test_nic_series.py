"""The labels of NICs: binding and network."""

from __future__ import annotations

import pytest

from kvedge.api.metrics.nic_series import describe_nics
from kvedge.resources.codec import JsonObject
from tests.support.builders import vmi_with

POD: JsonObject = {"pod": {}}


@pytest.mark.parametrize(
    ("nic", "network", "labels"),
    [
        ({"masquerade": {}}, POD, ("core", "masquerade", "pod networking")),
        ({"bridge": {}}, {"multus": {"networkName": "lan"}}, ("core", "bridge", "lan")),
        (
            {"sriov": {}},
            {"resourceClaim": {"claimName": "nics", "requestName": "port"}},
            ("core", "sriov", "nics/port"),
        ),
        ({"passtBinding": {}}, POD, ("core", "passt", "pod networking")),
        ({"binding": {"name": "own"}}, POD, ("plugin", "own", "pod networking")),
        ({}, POD, ("core", "<none>", "pod networking")),
    ],
    ids=["masquerade", "bridge on a LAN", "function of a claim", "passt", "plugin", "nothing yet"],
)
def test_a_nic_has_its_binding_and_its_network(nic: JsonObject, network: JsonObject, labels: tuple[str, ...]) -> None:
    spec = {"domain": {"devices": {"interfaces": [{"name": "n", **nic}]}}, "networks": [{"name": "n", **network}]}
    kind, name, at = labels
    expected = {"vnic_name": "n", "binding_type": kind, "binding_name": name, "network": at}
    assert list(describe_nics(vmi_with(spec).spec)) == [expected]


def test_a_nic_without_a_network_is_left_out() -> None:
    spec: JsonObject = {"domain": {"devices": {"interfaces": [{"name": "n", "bridge": {}}]}}}
    assert list(describe_nics(vmi_with(spec).spec)) == []
