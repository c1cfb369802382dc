"""The networks that a Pod joins besides its own: names and annotations."""

from __future__ import annotations

import json

import pytest

from kvedge.resources.types.pod_networks import (
    NETWORKS,
    JoinedNetwork,
    Selection,
    SelectionError,
    attachment_of,
    lan_interfaces,
    make_wanted_networks,
    network_status,
    parse_status,
    parse_wanted,
    pod_nic,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with


def on_two_networks(**lan: object) -> VirtualMachineInstance:
    spec = {
        "domain": {
            "devices": {
                "interfaces": [
                    {"name": "default", "bridge": {}},
                    {"name": "lan", "bridge": {}, "macAddress": "52-54-00-00-00-0A", **lan},
                ]
            }
        },
        "networks": [{"name": "lan", "multus": {"networkName": "site/red"}}, {"name": "default", "pod": {}}],
    }
    return vmi_with(spec, name="web", namespace="shop", uid="u")


def test_a_pods_nic_is_called_by_kubevirts_rule() -> None:
    # As KubeVirt's own tests have it: sha256 of the network's name in the VMI, cut to what a link's name holds.
    assert pod_nic("red") == "podb1f51a511f1"
    assert len(pod_nic("x" * 300)) == 14


def test_a_launcher_pod_asks_for_each_network_with_the_guests_mac() -> None:
    assert json.loads(make_wanted_networks(on_two_networks())) == [
        {"name": "red", "namespace": "site", "interface": pod_nic("lan"), "mac": "52:54:00:00:00:0a"}
    ]
    assert [(index, item.name, network) for index, item, network in lan_interfaces(on_two_networks())] == [
        (1, "lan", "site/red")
    ]


def test_a_binding_plugins_own_network_is_told_for_which_of_the_vmis_it_is() -> None:
    vmi = on_two_networks(bridge=None, binding={"name": "site"})
    first, second = json.loads(make_wanted_networks(vmi, {"site": "infra/helper", "other": "x"}))
    assert (first["name"], first["interface"]) == ("red", pod_nic("lan"))
    assert second == {"name": "helper", "namespace": "infra", "cni-args": {"logicNetworkName": "lan"}}
    assert len(json.loads(make_wanted_networks(vmi, {"site": ""}))) == 1
    (_, read) = parse_wanted(make_wanted_networks(vmi, {"site": "helper"}), "shop")
    assert (read.reference, read.interface) == ("shop/helper", "net2")


def test_a_nic_that_is_absent_is_not_asked_for() -> None:
    assert make_wanted_networks(on_two_networks(state="absent")) == ""


def test_what_is_asked_for_is_read_as_it_was_written() -> None:
    assert parse_wanted(make_wanted_networks(on_two_networks()), "shop") == [
        Selection(name="red", namespace="site", interface=pod_nic("lan"), mac="52:54:00:00:00:0a")
    ]


def test_the_short_form_of_multus_is_understood() -> None:
    assert parse_wanted("red, site/blue@blue0", "shop") == [
        Selection(name="red", namespace="shop", interface="net1"),
        Selection(name="blue", namespace="site", interface="blue0"),
    ]
    assert parse_wanted(" ", "shop") == []


@pytest.mark.parametrize(
    "text",
    [
        "[{",
        '[{"name": 1}]',
        '[{"name": "red", "ips": ["192.0.2.1"]}]',
        '[{"name": ""}]',
        "red@eth0",
        "red@a,blue@a",
        "red@../x",
        f"red@{'a' * 15}",
        ",".join(["red"] * 257),
        "[" * 100_000,
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_annotations_name(text: str) -> None:
    with pytest.raises(SelectionError) as caught:
        parse_wanted(text, "shop")
    assert str(caught.value).startswith(f"metadata.annotations[{NETWORKS}]: ")
    assert len(str(caught.value)) < 300


def test_the_answer_is_what_multus_would_write() -> None:
    joined = [
        JoinedNetwork(name="kvedge0", interface="eth0", ips=["10.0.0.5"], mac="02:00:00:00:00:01", default=True),
        JoinedNetwork(name="site/red", interface="net1", mac="02:00:00:00:00:02"),
    ]
    assert json.loads(network_status(joined)) == [
        {"name": "kvedge0", "interface": "eth0", "ips": ["10.0.0.5"], "mac": "02:00:00:00:00:01", "default": True},
        {"name": "site/red", "interface": "net1", "mac": "02:00:00:00:00:02"},
    ]
    assert parse_status(network_status(joined)) == joined


@pytest.mark.parametrize("text", ["", "no JSON", "{}", '[{"interface": 3}]'])
def test_an_answer_that_cannot_be_understood_is_none(text: str) -> None:
    assert parse_status(text) == []


def test_a_network_is_of_the_vms_namespace_unless_it_says_otherwise() -> None:
    assert attachment_of("red", "shop") == ("shop", "red")
    assert attachment_of("site/red", "shop") == ("site", "red")
