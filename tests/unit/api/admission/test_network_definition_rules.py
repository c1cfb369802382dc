"""Which networks are refused when they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.network_definition_rules import network_can_be_joined, network_warnings
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.lan_reservations import RESERVATIONS

ADDRESSES = {"subnet": "192.0.2.0/24", "first": "192.0.2.50", "last": "192.0.2.99"}
MAC = "52:54:00:00:00:01"


def network(config: str, reserved: str = "") -> JsonObject:
    annotations = {RESERVATIONS: reserved} if reserved else {}
    return {"metadata": {"name": "lan", "annotations": annotations}, "spec": {"config": config}}


def text(**config: Any) -> str:
    return json.dumps({"cniVersion": "1.0.0", "type": "bridge", "bridge": "br0", **config})


@pytest.mark.parametrize(
    ("document", "field", "said"),
    [
        (network("{"), "spec.config", "this is no JSON"),
        (network(""), "spec.config", "this is no JSON"),
        (network(text(vlan=4095)), "spec.config", "spec.config.vlan: '4095' is out of range; use 0 to 4094"),
        (network('{"type": "macvtap"}'), "spec.config", "spec.config.master: '' is no name of a link"),
        (
            network(text(kvedge={"addresses": ADDRESSES}), f'{{"{MAC}": "10.0.0.1"}}'),
            "addresses]",
            "no address for a gu",
        ),
        (network(text(), "no"), "addresses]", "write it as"),
        ({"metadata": {"name": "lan"}, "spec": {"config": 7}}, "spec.config", "7"),
    ],
)
def test_what_no_pod_could_join_is_refused_with_its_field(document: JsonObject, field: str, said: str) -> None:
    (cause,) = network_can_be_joined(document, None)
    assert cause.field.endswith(field)
    assert said in cause.message or cause.reason == "FieldValueTypeInvalid"


@pytest.mark.parametrize(
    "document",
    [
        network(text(vlan=7)),
        network('{"type": "macvtap", "master": "eth0"}'),
        network(text(kvedge={"addresses": ADDRESSES}), f'{{"{MAC}": "192.0.2.7"}}'),
    ],
)
def test_what_a_pod_can_join_enters(document: JsonObject) -> None:
    assert list(network_can_be_joined(document, None)) == []


def test_another_plugins_network_enters_with_a_warning() -> None:
    several = json.dumps({"plugins": [json.loads(text()), {"type": "tuning"}]})
    for config, said in ((text(type="macvlan"), "spec.config.type: 'macvlan' is not"), (several, "'tuning' is not")):
        assert list(network_can_be_joined(network(config), None)) == []
        (warning,) = network_warnings(network(config))
        assert said in warning
    assert list(network_warnings(network(text()))) == []


def test_one_that_was_there_before_may_get_a_label() -> None:
    old, new = network("{"), network("{")
    new["metadata"]["labels"] = {"a": "b"}
    assert list(network_can_be_joined(new, old)) == []
    assert list(network_can_be_joined(network("["), old)) != []


def test_the_webhook_leads_there() -> None:
    resource = {"group": "k8s.cni.cncf.io", "version": "v1", "resource": "network-attachment-definitions"}
    request = decode(
        AdmissionRequest, {"uid": "u", "operation": "CREATE", "resource": resource, "object": network("{")}
    )
    (cause,) = plan_verdict(request, Cluster()).causes
    assert cause.field == "spec.config"
