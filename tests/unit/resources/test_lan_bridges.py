"""Which bridges a node says that it has, and which one a network's guests need."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.resources.lan_bridges import MOST_BRIDGES, ONLY_WITH_BRIDGE, bridge_labels, find_needed_bridge
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec


def a_network(config: str, annotation: str = "true") -> NetworkAttachmentDefinition:
    return NetworkAttachmentDefinition(
        metadata=ObjectMeta(name="lan", namespace="n", annotations={ONLY_WITH_BRIDGE: annotation}),
        spec=NetworkAttachmentDefinitionSpec(config=config),
    )


def test_a_node_says_its_bridges_as_far_as_they_are_labels_and_no_more_than_a_bound() -> None:
    assert bridge_labels(["br-lan", "br lan", "vlan10."]) == {"bridge.node.kvedge.io/br-lan": "true"}
    assert len(bridge_labels(f"br{number}" for number in range(1000))) == MOST_BRIDGES


@pytest.mark.parametrize(
    ("config", "bridge"),
    [
        pytest.param({"type": "bridge", "bridge": "br-lan"}, "br-lan", id="one plugin"),
        pytest.param({"plugins": [{"type": "bridge", "bridge": "br-lan"}, {"type": "tuning"}]}, "br-lan", id="a list"),
        pytest.param({"type": "macvlan", "master": "eno1"}, "", id="no bridge"),
        pytest.param({"type": "bridge"}, "", id="the plugin's own bridge"),
        pytest.param({"type": "bridge", "bridge": "br lan"}, "", id="no label"),
        pytest.param({"type": "bridge", "bridge": "b", "kvedge": {"makeBridge": True}}, "", id="one that is made"),
        pytest.param({"plugins": {"type": "bridge"}}, "", id="plugins that are no list"),
        pytest.param(["bridge"], "", id="no document"),
    ],
)
def test_the_bridge_that_is_needed_is_that_of_the_bridge_plugin(config: Any, bridge: str) -> None:
    assert find_needed_bridge(a_network(json.dumps(config))) == bridge


@pytest.mark.parametrize("text", ["", "{", "[" * 9000, '{"type":"bridge","bridge":"b"}' + " " * 20000])
def test_what_cannot_be_read_needs_no_bridge(text: str) -> None:
    assert find_needed_bridge(a_network(text)) == ""


def test_a_network_that_does_not_say_so_is_on_all_nodes() -> None:
    assert find_needed_bridge(a_network('{"type":"bridge","bridge":"b"}', annotation="")) == ""
