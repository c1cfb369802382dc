"""VLANs of a bridge that kvedge made of a NIC."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_bridges import LanSeen
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.lan.lan_plan import lan_port, lan_port_name, plan_lan_healing, plan_lan_port
from kvedge.network.lan.lan_words import describe_lan
from kvedge.network.nics.nic_plan import nic_alias
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.steps import Step
from tests.support.values import replace
from tests.unit.network.namespace_model import NamespaceModel

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
NETNS = Path("/run/netns/kvedge0-pod")
SEVENTH = LanConfig(bridge="kvb-eth0", vlan=7)
PORT = lan_port("kvedge0-pod", "pod0123456789a", "52:54:00:00:00:01", SEVENTH)
NAME = lan_port_name(CONFIG, PORT.netns, PORT.interface)


def host(alias: str = nic_alias("eth0")) -> NamespaceModel:
    """A host whose NIC is a port of a bridge, with another guest beside it."""
    model = NamespaceModel()
    bridge = model.add_link("kvb-eth0", "bridge", up=True, alias=alias, vlan_filtering=False)
    model.add_link("eth0", "", up=True, master=bridge.index)
    model.add_link("vother", "veth", up=True, master=bridge.index)
    return model


def seen(model: NamespaceModel) -> LanSeen:
    return LanSeen(tuple(model.links.values()), has_table=bool(model.tables), ipv6=True)


def attaching(model: NamespaceModel, network: LanConfig = SEVENTH) -> list[Step]:
    return plan_lan_port(CONFIG, seen(model), replace(PORT, network=network), NETNS, whole=True)


def do(model: NamespaceModel, steps: list[Step]) -> None:
    for step in steps:
        model.apply(step)


def carried(model: NamespaceModel) -> dict[str, set[tuple[int, int]]]:
    return {model.links[index].name: vlans for index, vlans in model.carried.items()}


@pytest.mark.parametrize(
    ("network", "vlans"),
    [
        (SEVENTH, {(7, 7)}),
        (LanConfig(bridge="kvb-eth0", trunk=((10, 10), (20, 30)), vlan=5), {(5, 5), (10, 10), (20, 30)}),
    ],
    ids=["one VLAN", "a trunk"],
)
def test_the_bridge_keeps_vlans_apart_and_its_nic_alone_carries_them(
    network: LanConfig, vlans: set[tuple[int, int]]
) -> None:
    model = host()
    do(model, attaching(model, network))
    assert model.link("kvb-eth0").vlan_filtering is True
    assert carried(model) == {"eth0": vlans}
    assert model.vlans[model.link(NAME).index] == (network.vlan, network.trunk)


def test_a_network_without_vlans_changes_nothing_of_it() -> None:
    model = host()
    do(model, attaching(model, LanConfig(bridge="kvb-eth0")))
    assert (model.link("kvb-eth0").vlan_filtering, carried(model)) == (False, {})


def test_a_bridge_of_the_operators_is_the_operators_to_change() -> None:
    with pytest.raises(NetworkError, match="it does not keep VLANs apart, and VLAN 7 is wanted"):
        attaching(host(alias=""))


def test_a_guest_is_never_on_the_bridge_before_it_keeps_vlans_apart() -> None:
    for count in range(len(attaching(host())) + 1):
        model = host()
        for step in attaching(model)[:count]:
            model.apply(step)
        links = [link for link in model.links.values() if link.name == NAME and link.up and link.master]
        assert not links or (model.link("kvb-eth0").vlan_filtering and model.vlans), count
        do(model, attaching(model))
        assert carried(model) == {"eth0": {(7, 7)}}


def test_a_bridge_that_is_made_anew_keeps_them_apart_again_and_the_log_says_so_once() -> None:
    model = host()
    do(model, attaching(model))
    bridge = model.link("kvb-eth0")
    model.links[bridge.index] = replace(bridge, vlan_filtering=False)
    model.carried.clear()
    steps = plan_lan_healing(CONFIG, seen(model), whole=True)
    do(model, steps)
    assert describe_lan(steps) == ["kvb-eth0 did not keep VLANs apart"]
    assert (model.link("kvb-eth0").vlan_filtering, carried(model)) == (True, {"eth0": {(7, 7)}})
    assert describe_lan(plan_lan_healing(CONFIG, seen(model), whole=True)) == []
