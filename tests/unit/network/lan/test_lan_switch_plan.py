"""The plan by which a NIC goes to another bridge, or VLAN, while its guest runs, against a model of the host."""

from __future__ import annotations

import pytest

from kvedge.network.errors import MacInUseError, NetworkError
from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.network.lan.lan_bridges import LanSeen
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.lan.lan_plan import (
    LanPort,
    lan_port,
    lan_port_name,
    lan_port_of,
    lan_ports_of,
    lan_table_of,
    number_of,
    plan_lan_healing,
    plan_lan_port,
)
from kvedge.network.lan.lan_rules import SERVERS, WITH_HOST
from kvedge.network.lan.lan_switch_plan import plan_lan_switch
from kvedge.network.link_types import Link
from kvedge.network.netns import netns_path
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.steps import ReplaceTable, SetLink
from tests.support.values import replace
from tests.unit.network.namespace_model import NamespaceModel

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
NETNS = "kvedge0-pod"
MAC = "52:54:00:00:00:01"
LAN, OTHER, SMALL = LanConfig(bridge="br0"), LanConfig(bridge="br1"), LanConfig(bridge="br2")
TRUNK = LanConfig(bridge="br0", vlan=5, trunk=((6, 9),), servers=True)
VLAN, MADE = LanConfig(bridge="br0", vlan=7), LanConfig(bridge="kvn-1", made=True, servers=True)
TABLE = lan_table_of(CONFIG)


def nic(network: LanConfig, pod: str = NETNS, mac: str = MAC) -> LanPort:
    return lan_port(pod, "pod0123456789a", mac, network)


NAME = lan_port_name(CONFIG, NETNS, "pod0123456789a")


def seen(model: NamespaceModel) -> LanSeen:
    return LanSeen(tuple(model.links.values()), (Family.BRIDGE, TABLE.name) in model.tables, model.ipv6)


def host(*ports: LanPort) -> NamespaceModel:
    """A host with three bridges and these NICs on them."""
    model = NamespaceModel()
    for name, mtu in (("br0", 1500), ("br1", 1500), ("br2", 1400)):
        model.add_link(name, "bridge", mtu=mtu, up=True, vlan_filtering=True)
    for port in ports:
        for step in plan_lan_port(CONFIG, seen(model), port, netns_path(port.netns), whole=True):
            model.apply(step)
    return model


def switch(model: NamespaceModel, wanted: LanPort, stop_after: int | None = None) -> None:
    for step in plan_lan_switch(CONFIG, seen(model), wanted)[:stop_after]:
        model.apply(step)


@pytest.mark.parametrize(("before", "after"), [(LAN, OTHER), (LAN, VLAN), (VLAN, LAN), (MADE, LAN), (LAN, MADE)])
def test_after_a_switch_all_is_as_if_the_nic_had_been_made_there(before: LanConfig, after: LanConfig) -> None:
    model, fresh = host(nic(before)), host(nic(after))
    switch(model, nic(after))
    moved, made = model.link(NAME), fresh.link(NAME)
    assert (moved.up, moved.alias, moved.mtu) == (made.up, made.alias, made.mtu)
    assert moved.master == model.link(after.bridge).index
    assert model.tables == fresh.tables
    assert {link.name for link in model.links.values()} == {link.name for link in fresh.links.values()}


def test_what_a_guest_may_do_changes_with_its_network() -> None:
    model = host(nic(MADE))
    sets = model.tables[Family.BRIDGE, TABLE.name]
    assert (bool(sets[SERVERS.name]), bool(sets.get(WITH_HOST.name))) == (True, False)
    switch(model, nic(LAN))
    sets = model.tables[Family.BRIDGE, TABLE.name]
    assert (bool(sets.get(SERVERS.name)), bool(sets[WITH_HOST.name])) == (False, True)


def test_a_switch_that_is_cut_short_is_finished_by_whoever_heals_or_does_it_again() -> None:
    wanted = nic(VLAN)
    for stop in range(len(plan_lan_switch(CONFIG, seen(host(nic(OTHER))), wanted))):
        model = host(nic(OTHER))
        switch(model, wanted, stop)
        # It is never up on a network of which its alias says nothing.
        port = lan_ports_of(CONFIG, model.links.values())[NAME]
        link = model.link(NAME)
        assert not link.up or link.master == model.link(port.network.bridge).index
        for step in plan_lan_healing(CONFIG, seen(model), whole=True):
            model.apply(step)
        switch(model, wanted)
        assert (model.link(NAME).up, model.link(NAME).master) == (True, model.link("br0").index)


def named(network: LanConfig, number: int) -> LanPort:
    return replace(nic(network), number=number)


def follow(model: NamespaceModel, wanted: LanPort) -> None:
    """As the agent does: by what the port's alias says of its network."""
    present = lan_ports_of(CONFIG, model.links.values())[NAME]
    if present.number != wanted.number:
        switch(model, wanted)
        return
    for step in plan_lan_port(CONFIG, seen(model), replace(present, settled=True), netns_path(NETNS), whole=True):
        model.apply(step)


@pytest.mark.parametrize("heals", [False, True], ids=["at once", "after healing"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(LAN, OTHER), (LAN, VLAN), (MADE, LAN), (LAN, MADE), (TRUNK, OTHER), (OTHER, TRUNK)],
    ids=["bridges", "a VLAN", "from a network of ours", "to a network of ours", "from a trunk", "to a trunk"],
)
@pytest.mark.parametrize("first_wanted", [1, 2], ids=["taken back", "gone on with"])
def test_a_switch_that_is_cut_short_leaves_nothing_of_the_other_network(
    before: LanConfig, after: LanConfig, heals: bool, first_wanted: int
) -> None:
    first, second = named(before, 1), named(after, 2)
    for stop in range(len(plan_lan_switch(CONFIG, seen(host(first)), second)) + 1):
        model = host(first)
        switch(model, second, stop)
        if heals:
            for step in plan_lan_healing(CONFIG, seen(model), whole=True):
                model.apply(step)
        for wanted in (first, second) if first_wanted == 1 else (second, first):
            follow(model, wanted)
            fresh = host(wanted)
            moved, made = model.link(NAME), fresh.link(NAME)
            assert (moved.up, moved.alias) == (made.up, made.alias), stop
            assert moved.master == model.link(wanted.network.bridge).index, stop
            assert model.tables == fresh.tables, stop


def test_healing_makes_the_filter_anew_where_a_switch_was_cut_short() -> None:
    for stop in range(len(plan_lan_switch(CONFIG, seen(host(nic(TRUNK))), nic(OTHER)))):
        model = host(nic(TRUNK))
        switch(model, nic(OTHER), stop)
        for step in plan_lan_healing(CONFIG, seen(model), whole=True):
            model.apply(step)
        port = lan_ports_of(CONFIG, model.links.values())[NAME]
        assert port.settled
        assert model.tables == host(port).tables, stop
        assert (model.link(NAME).up, model.link(NAME).master) == (True, model.link(port.network.bridge).index)


def test_an_alias_tells_the_number_of_its_network_and_an_earlier_version_reads_the_rest() -> None:
    port = named(LanConfig(bridge="br0", servers=True), number_of("shop/lan"))
    assert lan_port_of(link_with(port.alias)) == port
    assert lan_port_of(link_with(replace(port, settled=False).alias)) == replace(port, settled=False)
    # Eight or nine words, of which the flags may hold letters that it does not know.
    assert len(port.alias.split()) == 8
    assert not set("mif") & set(port.alias.split()[7])
    assert number_of("shop/lan") != number_of("shop/other")


@pytest.mark.parametrize(
    "network",
    [LanConfig(bridge="br0", mtu=1500), LanConfig(bridge="br0", nic="eth7", vlan=7), VLAN],
    ids=["with an MTU", "with a NIC", "a VLAN"],
)
def test_a_nic_that_is_there_stays_as_it_is_whatever_its_alias_leaves_out(network: LanConfig) -> None:
    model = host(nic(network))
    if network.nic:
        model.add_link("eth7", "dummy", up=True)
    steps = plan_lan_port(CONFIG, seen(model), nic(network), netns_path(NETNS), whole=True)
    assert not [step for step in steps if isinstance(step, (SetLink, ReplaceTable))]


def link_with(alias: str) -> Link:
    return replace(host(nic(LAN)).link(NAME), alias=alias)


def with_addresses(bridge: str) -> LanPort:
    given = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.99")
    return lan_port(NETNS, "pod0123456789a", MAC, LanConfig(bridge=bridge, addresses=given), "192.0.2.77")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (nic(LAN), nic(SMALL), "the guest sends frames of 1500 bytes, and the bridge's MTU is 1400"),
        (with_addresses("br0"), nic(OTHER), "one of the two networks gives addresses"),
        (nic(LAN), with_addresses("br1"), "one of the two networks gives addresses"),
        (nic(LAN), nic(LanConfig(bridge="nowhere")), "there is no bridge"),
    ],
    ids=["a smaller MTU", "from addresses", "to addresses", "no bridge"],
)
def test_what_a_guest_would_have_to_be_told_waits_for_a_restart(before: LanPort, after: LanPort, said: str) -> None:
    model = host(before)
    picture = model.picture()
    with pytest.raises(NetworkError, match=said):
        switch(model, after)
    assert model.picture() == picture


def test_a_mac_that_is_there_already_keeps_the_nic_where_it_is() -> None:
    model = host(nic(LAN), nic(OTHER, "kvedge0-two"))
    with pytest.raises(MacInUseError):
        switch(model, nic(OTHER))


def test_a_port_that_is_gone_is_not_made_by_a_switch() -> None:
    with pytest.raises(NetworkError, match="its port is gone"):
        switch(host(), nic(LAN))
