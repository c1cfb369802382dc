# Tests: kvedge/network/lan/lan_rules.py, kvedge/network/lan/lan_bridges.py, kvedge/network/lan/lan_words.py
"""The plans of NICs on bridges of the host, against a model of its namespace."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.network.errors import MacInUseError, NetworkError
from kvedge.network.lan.lan_addresses import AddressesError, LanAddresses
from kvedge.network.lan.lan_bridges import LanSeen, bridge_alias
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.lan.lan_plan import (
    LanPort,
    lan_port,
    lan_port_name,
    lan_ports_of,
    lan_table_of,
    plan_lan_detaching,
    plan_lan_healing,
    plan_lan_inside,
    plan_lan_port,
    plan_lan_removal,
)
from kvedge.network.lan.lan_rules import ANY_ADDRESS, PORT_ADDRESSES, PORT_MACS, SERVERS, TRUNKS, WITH_HOST
from kvedge.network.lan.lan_words import describe_lan, lan_troubles
from kvedge.network.link_types import Address, Link, Route
from kvedge.network.nft.nft_port_rules import port_address_key, port_mac_key, port_tag_key
from kvedge.network.nft.nft_rules import link_key
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import NodeNetworkConfig, stable_mac
from kvedge.network.steps import AddAddress, AddRoute, AddVeth, ReplaceTable, SetLink, SetSysctl, Step
from tests.support.values import replace
from tests.unit.network.namespace_model import NamespaceModel

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
OTHER_BOX = NodeNetworkConfig(bridge="kve-abc123", cidr="10.98.0.0/24", table="kve-abc123", netns_prefix="kve-abc123-")
NETNS = Path("/run/netns/kvedge0-pod")
LAN, VLAN = LanConfig(bridge="br0"), LanConfig(bridge="br0", vlan=7, isolates_ports=True)
MADE = LanConfig(bridge="kvn-1", made=True, servers=True)
MAC, MAC_2 = "52:54:00:00:00:01", "52:54:00:00:00:02"
TABLE = lan_table_of(CONFIG)


def nic(network: LanConfig = LAN, pod: str = "pod", mac: str = MAC) -> LanPort:
    return lan_port(f"kvedge0-{pod}", "pod0123456789a", mac, network)


def name_of(port: LanPort) -> str:
    return lan_port_name(CONFIG, port.netns, port.interface)


def host(*, vlan_filtering: bool = True, ipv6: bool = True) -> NamespaceModel:
    """A host with a bridge of its own that leads to the LAN, and the node bridge."""
    model = NamespaceModel(ipv6=ipv6)
    model.add_link("br0", "bridge", mtu=1400, up=True, vlan_filtering=vlan_filtering)
    model.add_link("eno1", "", up=True)
    model.add_link("kvedge0", "bridge", up=True, alias="kvedge ip_forward=0", vlan_filtering=False)
    return model


def seen(model: NamespaceModel) -> LanSeen:
    return LanSeen(tuple(model.links.values()), (Family.BRIDGE, TABLE.name) in model.tables, model.ipv6)


def do(model: NamespaceModel, steps: list[Step], stop_after: int | None = None) -> None:
    for step in steps[:stop_after]:
        model.apply(step)


def attach(model: NamespaceModel, port: LanPort, stop_after: int | None = None, *, whole: bool = True) -> None:
    do(model, plan_lan_port(CONFIG, seen(model), port, NETNS, whole=whole), stop_after)


def heal(model: NamespaceModel, *, whole: bool = True) -> list[str]:
    steps = plan_lan_healing(CONFIG, seen(model), whole=whole)
    do(model, steps)
    return describe_lan(steps)


def detach(model: NamespaceModel, port: LanPort) -> None:
    do(model, plan_lan_detaching(CONFIG, seen(model), port.netns))


def keys(model: NamespaceModel) -> dict[str, set[bytes]]:
    """What is in the sets; empty ones are left out."""
    return {name: each for name, each in all_keys(model).items() if each}


def all_keys(model: NamespaceModel) -> dict[str, set[bytes]]:
    return model.tables[Family.BRIDGE, TABLE.name]


def mac_key(port: LanPort) -> bytes:
    return port_mac_key(name_of(port), bytes.fromhex(port.mac.replace(":", "")))


def test_a_nic_joins_a_bridge_of_the_host_and_leaves_it_as_it_was() -> None:
    model, port = host(), nic()
    before = model.picture()
    attach(model, port)
    made = model.link(name_of(port))
    assert (made.master, made.up, made.mtu) == (model.link("br0").index, True, 1400)
    assert model.sysctls[f"ipv6/conf/{made.name}/disable_ipv6"] == "1"
    known = {link_key(made.name)}
    assert keys(model) == {PORT_MACS.name: {mac_key(port)}, WITH_HOST.name: known, ANY_ADDRESS.name: known}
    assert lan_ports_of(CONFIG, model.links.values()) == {made.name: port}
    detach(model, port)
    assert model.picture() == before


def test_a_bridge_of_ours_comes_with_the_first_nic_and_goes_with_the_last() -> None:
    model, one, two = host(), nic(MADE), nic(MADE, "two", MAC_2)
    before = model.picture()
    attach(model, one)
    attach(model, two)
    bridge = model.link("kvn-1")
    assert (bridge.alias, bridge.up) == (bridge_alias(CONFIG), True)
    assert model.sysctls["ipv6/conf/kvn-1/disable_ipv6"] == "1"
    # Who else would be the DHCP server there?
    assert keys(model)[SERVERS.name] == {link_key(name_of(one)), link_key(name_of(two))}
    detach(model, one)
    assert model.link("kvn-1") == bridge
    known = {link_key(name_of(two))}
    # Whatever addresses the host has elsewhere, it is not on such a network.
    assert keys(model) == {PORT_MACS.name: {mac_key(two)}, SERVERS.name: known, ANY_ADDRESS.name: known}
    detach(model, two)
    assert model.picture() == before


def test_an_address_of_a_network_is_put_on_the_nic_and_remembered_by_the_port() -> None:
    given = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.99", gateway="192.0.2.1")
    network = replace(LAN, addresses=given, filters=True)
    port = lan_port("kvedge0-pod", "pod0123456789a", MAC, network, "192.0.2.50")
    model = host()
    attach(model, port)
    name = name_of(port)
    assert model.link(name).alias.endswith(" br0 0 f 192.0.2.50/24,192.0.2.1")
    # Of the network's range nobody needs to know any more.
    assert lan_ports_of(CONFIG, model.links.values()) == {name: replace(port, network=replace(network, addresses=None))}
    allowed = {port_address_key(name, address) for address in ("192.0.2.50", "0.0.0.0")}
    assert (keys(model)[PORT_ADDRESSES.name], ANY_ADDRESS.name in keys(model)) == (allowed, False)
    nic_link = Link(index=5, name=port.interface, kind="veth", mac=MAC, mtu=1500, up=True)
    assert plan_lan_inside([nic_link], port, ipv6=False) == [
        AddAddress(port.interface, "192.0.2.50", 24),
        AddRoute(port.interface, Route("0.0.0.0/0", "192.0.2.1", 5, metric=1029)),
    ]
    with pytest.raises(AddressesError, match=r"198\.51\.100\.7 is no address for a guest of 192\.0\.2\.0/24"):
        lan_port("kvedge0-pod", "pod0123456789a", MAC, network, "198.51.100.7")


def test_a_table_of_an_earlier_version_is_replaced_by_the_next_nic() -> None:
    model, port = host(), nic()
    attach(model, port)
    before = replace(seen(model), is_whole=False)
    other = nic(LAN, "two", MAC_2)
    tables = [
        step for step in plan_lan_port(CONFIG, before, other, NETNS, whole=True) if isinstance(step, ReplaceTable)
    ]
    (step,) = tables
    assert step.elements[PORT_MACS.name] == (mac_key(port), mac_key(other)), "with what the others may say"


def test_an_mtu_of_a_network_is_its_guests_and_not_the_bridges() -> None:
    """A bridge takes the smallest MTU of its ports for its own, and the host's LAN with it."""
    model, port = host(), nic(replace(LAN, mtu=1280))
    attach(model, port)
    name = name_of(port)
    assert (model.link("br0").mtu, model.link(name).mtu, model.peer_mtus[name]) == (1400, 1400, 1280)


def test_a_bridge_that_comes_back_with_a_larger_mtu_keeps_it() -> None:
    model, port = host(), nic()
    attach(model, port)
    model._delete(model.link("br0"))
    model.add_link("br0", "bridge", mtu=9000, up=True, vlan_filtering=False)
    assert heal(model) == [f"{name_of(port)} was not on br0"]
    assert (model.link("br0").mtu, model.link(name_of(port)).mtu) == (9000, 9000)


def test_a_bridge_of_ours_has_its_networks_mtu_also_when_it_is_put_back() -> None:
    model, port, two = host(), nic(replace(MADE, mtu=9000)), nic(replace(MADE, mtu=1500), "two", MAC_2)
    attach(model, port)
    attach(model, two)
    assert (model.link("kvn-1").mtu, model.peer_mtus[name_of(port)], model.peer_mtus[name_of(two)]) == (
        9000,
        9000,
        1500,
    )
    before = model.picture()
    model._delete(model.link("kvn-1"))
    heal(model)
    assert model.picture() == before
    model._delete(model.link("kvn-1"))
    # As after the agent's start, when a port is known by its alias.
    attach(model, lan_ports_of(CONFIG, model.links.values())[name_of(two)])
    heal(model)
    assert model.picture() == before


def test_a_port_is_of_its_vlan_before_it_is_up() -> None:
    model, port = host(), nic(VLAN)
    steps = plan_lan_port(CONFIG, seen(model), port, NETNS, whole=True)
    do(model, steps)
    index = model.link(name_of(port)).index
    assert (model.vlans[index], model.isolated) == ((7, ()), {index})
    assert steps[-1] == SetLink(name_of(port), up=True)


@pytest.mark.parametrize("port", [nic(), nic(VLAN), nic(MADE)], ids=["LAN", "VLAN", "ours"])
def test_a_step_that_was_the_last_of_a_killed_agent_is_gone_on_from(port: LanPort) -> None:
    whole = host()
    attach(whole, port)
    for count in range(len(plan_lan_port(CONFIG, seen(host()), port, NETNS, whole=True))):
        model = host()
        attach(model, port, count)
        attach(model, port)
        assert model.picture() == whole.picture(), count


def is_placed(model: NamespaceModel, port: LanPort) -> bool:
    """Whether the port is on its bridge, in its VLAN and isolated."""
    index = model.link(name_of(port)).index
    is_on = model.link(name_of(port)).master == model.link("br0").index
    return is_on and model.vlans.get(index) == (7, ()) and index in model.isolated


def off_its_bridge() -> NamespaceModel:
    """The bridge was made anew: the port is up, and on none."""
    model = host()
    attach(model, nic(VLAN))
    model._delete(model.link("br0"))
    model.add_link("br0", "bridge", mtu=1400, up=True, vlan_filtering=True)
    return model


def half_joined() -> NamespaceModel:
    """The port is on its bridge and down, in no VLAN of its own and not isolated."""
    model = host()
    attach(model, nic(VLAN))
    port = model.link(name_of(nic(VLAN)))
    model.apply(SetLink(port.name, up=False))
    model._forget_port(port)
    return model


def healed(model: NamespaceModel) -> list[Step]:
    return plan_lan_healing(CONFIG, seen(model), whole=True)


def attached(model: NamespaceModel) -> list[Step]:
    return plan_lan_port(CONFIG, seen(model), nic(VLAN), NETNS, whole=True)


@pytest.mark.parametrize(
    ("world", "plan"),
    [(host, attached), *itertools.product((off_its_bridge, half_joined), (attached, healed))],
)
def test_a_port_is_never_up_outside_its_vlan_wherever_an_agent_is_killed(
    world: Callable[[], NamespaceModel], plan: Callable[[NamespaceModel], list[Step]]
) -> None:
    name = name_of(nic(VLAN))
    for again in (attached, healed):
        for count in range(len(plan(world())) + 1):
            model = world()
            for step in [*plan(model)[:count], None]:
                ends = [link for link in model.links.values() if link.name == name and link.up and link.master]
                assert not ends or is_placed(model, nic(VLAN)), step
                if step is not None:
                    model.apply(step)
            if name not in lan_ports_of(CONFIG, model.links.values()) and again is healed:
                continue
            do(model, again(model))
            assert (model.link(name).up, is_placed(model, nic(VLAN))) == (True, True), count


def test_a_trunk_is_carried_by_its_port_alone_and_remembered_in_its_alias() -> None:
    model, port = host(), nic(LanConfig(bridge="br0", vlan=5, trunk=((10, 10), (20, 22))))
    before = model.picture()
    attach(model, port)
    name = name_of(port)
    assert model.vlans[model.link(name).index] == (5, ((10, 10), (20, 22)))
    assert keys(model)[TRUNKS.name] == {port_tag_key(name, vlan) for vlan in (10, 20, 21, 22)}
    assert lan_ports_of(CONFIG, model.links.values()) == {name: port}
    assert heal(model) == []
    detach(model, port)
    assert model.picture() == before


def test_a_mac_is_one_nics_in_each_vlan() -> None:
    model, trunk = host(), LanConfig(bridge="br0", trunk=((7, 9),))
    attach(model, nic(trunk))
    attach(model, nic(LanConfig(bridge="br0", vlan=5), "two"))
    attach(model, nic(LAN, "three"))
    with pytest.raises(MacInUseError):
        attach(model, nic(VLAN, "four"))


def test_a_bridge_that_keeps_no_vlans_apart_carries_no_trunk() -> None:
    with pytest.raises(NetworkError, match="VLAN 7-9, native 5 is wanted"):
        attach(host(vlan_filtering=False), nic(LanConfig(bridge="br0", vlan=5, trunk=((7, 9),))))


def test_a_port_waits_down_while_its_bridge_keeps_no_vlans_apart() -> None:
    model, port = host(), nic(VLAN)
    attach(model, port)
    before = model.picture()
    bridge = model.link("br0")
    model.links[bridge.index] = replace(bridge, vlan_filtering=False)
    heal(model)
    assert not model.link(name_of(port)).up
    assert heal(model) == []
    (told,) = lan_troubles(CONFIG, seen(model))
    assert "it does not keep VLANs apart, and VLAN 7 is wanted" in told
    model.links[bridge.index] = bridge
    assert heal(model) == [f"{name_of(port)} was down"]
    assert model.picture() == before


def test_a_pair_into_a_namespace_of_before_is_made_anew() -> None:
    model, port = host(), nic()
    attach(model, port)
    first = model.link(name_of(port))
    attach(model, port, whole=False)
    assert model.link(name_of(port)).index != first.index
    assert model.link(name_of(port)).master == model.link("br0").index


def test_nothing_is_said_again_to_a_nic_that_is_as_it_should_be() -> None:
    model, port = host(), nic(MADE)
    attach(model, port)
    before = model.picture()
    attach(model, port)
    assert model.picture() == before
    assert heal(model) == []


def test_what_others_undo_is_put_back() -> None:
    model, port, ours = host(), nic(VLAN), nic(MADE, "two", MAC_2)
    attach(model, port)
    attach(model, ours)
    before = model.picture()
    model._delete(model.link("kvn-1"))
    model.apply(SetLink(name_of(port), up=False))
    del model.tables[Family.BRIDGE, TABLE.name]
    said = heal(model, whole=False)
    assert "kvn-1 was gone" in said
    assert f"table bridge {TABLE.name} was not whole" in said
    assert model.picture() == before


def test_a_bridge_that_went_away_is_told_of_and_waited_for() -> None:
    model, port = host(), nic()
    attach(model, port)
    model._delete(model.link("br0"))
    assert heal(model) == []
    (told,) = lan_troubles(CONFIG, seen(model))
    assert told.startswith("1 guest NICs are cut off: there is no bridge br0")
    model.add_link("br0", "bridge", up=True, vlan_filtering=False)
    assert heal(model) == [f"{name_of(port)} was not on br0"]
    assert lan_troubles(CONFIG, seen(model)) == []


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (LanConfig(bridge="br9"), "there is no bridge br9: ENODEV; make it in this host's network configuration"),
        (LanConfig(bridge="eno1"), "cannot join bridge eno1: it is a hardware link and no bridge"),
        (LanConfig(bridge="kvedge0"), "cannot join bridge kvedge0: it is the Pod network's own; use `pod: {}`"),
        (LanConfig(bridge="br0", made=True), "it is there, and this kvedge has not made it"),
        (VLAN, "it does not keep VLANs apart, and VLAN 7 is wanted; `ip link set br0 type bridge vlan_filtering 1`"),
        (replace(LAN, mtu=1401), "its MTU is 1400, and 1401 is wanted; give the network no more than 1400, or give"),
    ],
    ids=["no bridge", "a NIC", "the node bridge", "somebody else's", "no VLANs", "a larger MTU"],
)
def test_a_bridge_that_cannot_be_joined_is_named_with_the_remedy(network: LanConfig, said: str) -> None:
    model = host(vlan_filtering=False)
    with pytest.raises(NetworkError, match=network.bridge) as caught:
        attach(model, nic(network))
    assert said in str(caught.value)


def test_two_pods_with_one_mac_are_not_on_one_network() -> None:
    model = host()
    attach(model, nic())
    with pytest.raises(MacInUseError, match="another Pod has it on br0"):
        attach(model, nic(pod="two"))
    # A network is a bridge and a VLAN.
    attach(model, nic(VLAN, pod="two"))
    attach(model, nic(MADE, pod="three"))


def test_a_mac_that_changed_leaves_no_key_of_the_one_before() -> None:
    model, port = host(), nic()
    attach(model, port)
    changed = replace(port, mac=MAC_2)
    attach(model, changed)
    assert keys(model)[PORT_MACS.name] == {mac_key(changed)}


def test_a_nic_without_a_mac_gets_one_that_stays() -> None:
    assert nic(mac="") == nic(mac="")
    assert nic(mac="").mac == stable_mac("kvedge0-pod", "pod0123456789a")
    assert nic(mac="52:54:00:AA:00:01").mac == "52:54:00:aa:00:01"


def test_what_others_have_is_never_removed() -> None:
    model, port = host(), nic(MADE)
    model.add_link("kvn-2", "bridge", alias=bridge_alias(OTHER_BOX), vlan_filtering=False)
    model.add_link(lan_port_name(OTHER_BOX, "x", "net1"), "veth")
    model.add_link("virbr0", "bridge", alias="kvedge", vlan_filtering=False)
    before = model.picture()
    attach(model, port)
    # An agent was killed before it could write down what this is.
    model.add_link(lan_port_name(CONFIG, "kvedge0-cut", "net1"), "veth")
    do(model, plan_lan_removal(CONFIG, seen(model)))
    assert model.picture() == before


def test_the_pods_side_is_up_and_has_no_address_of_its_own() -> None:
    inside, port = NamespaceModel(), nic()
    inside.add_link(port.interface, "veth", mac=MAC_2)
    steps = plan_lan_inside(inside.links.values(), port, ipv6=True)
    # Before it is up: a router of the LAN would tell it one.
    assert steps[0] == SetSysctl(f"ipv6/conf/{port.interface}/disable_ipv6", "1")
    do(inside, steps)
    assert (inside.link(port.interface).mac, inside.link(port.interface).up) == (MAC, True)
    assert [
        step for step in plan_lan_inside(inside.links.values(), port, ipv6=False) if isinstance(step, SetLink)
    ] == []


def at(address: str, network: LanConfig = LAN, pod: str = "pod", mac: str = MAC) -> LanPort:
    return replace(nic(network, pod, mac), address=address)


def test_an_address_that_another_guest_has_on_the_bridge_is_refused() -> None:
    model = host()
    attach(model, at("192.0.2.50/24"))
    with pytest.raises(NetworkError) as caught:
        attach(model, at("192.0.2.50/25", pod="two", mac=MAC_2))
    assert str(caught.value).startswith(
        f"cannot give a NIC its address 192.0.2.50: the guest with MAC {MAC} has it on br0; give each network"
    )
    attach(model, at("192.0.2.50/24"))
    attach(model, at("192.0.2.51/24", pod="two", mac=MAC_2))
    attach(model, at("192.0.2.50/24", VLAN, "three", "52:54:00:00:00:03"))
    attach(model, nic(pod="four", mac="52:54:00:00:00:04"))


def test_an_address_of_the_host_itself_on_the_bridge_is_refused() -> None:
    model = host()
    model.add_link("br0.7", "vlan", up=True)
    bridge = model.link("br0").index
    links = [replace(each, lower=bridge) if each.name == "br0.7" else each for each in model.links.values()]
    addresses = tuple(
        Address(model.link(name).index, address, 24)
        for name, address in (("br0", "192.0.2.2"), ("br0.7", "192.0.2.7"), ("eno1", "192.0.2.9"))
    )
    there = replace(seen(model), links=tuple(links), addresses=addresses)
    for address, network, name in (("192.0.2.2", LAN, "br0"), ("192.0.2.7", VLAN, "br0.7")):
        with pytest.raises(NetworkError, match=rf"address {address}: this host has it on {name};"):
            plan_lan_port(CONFIG, there, at(f"{address}/24", network), NETNS, whole=True)
    for address, network in (("192.0.2.7", LAN), ("192.0.2.2", VLAN), ("192.0.2.9", LAN)):
        assert plan_lan_port(CONFIG, there, at(f"{address}/24", network), NETNS, whole=True)


def test_a_guest_that_joins_does_not_change_the_mac_of_an_operators_bridge() -> None:
    model = host()
    macs = [
        step.mac
        for port in (nic(), nic(pod="two", mac=MAC_2))
        for step in plan_lan_port(CONFIG, seen(model), port, NETNS, whole=True)
        if isinstance(step, AddVeth)
    ]
    assert len(set(macs)) == 2
    assert [mac[:3] for mac in macs] == ["fe:", "fe:"], "the highest of a bridge's ports: it takes the lowest"
