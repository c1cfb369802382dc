"""One Pod on the node bridge, from its port to its own side."""

from __future__ import annotations

import pytest

from kvedge.network.binding.port_rules import HOSTS, PORT_ADDRESSES, PORT_MACS
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Link
from kvedge.network.nft.nft_port_rules import port_address_key, port_mac_key
from kvedge.network.nft.nft_rules import address_key
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import attachment_for, attachments_of
from kvedge.network.pods.pod_port_plan import plan_detaching, plan_inside, plan_port
from kvedge.network.steps import AddRoute, DeleteLink, SetLink
from tests.support.values import replace
from tests.unit.network.namespace_model import NamespaceModel
from tests.unit.network.pods.node_networks import CONFIG, NETNS, POD, attach, ensure, heal, host, sets_of


def test_an_address_that_two_pods_have_stays_known_while_one_is_there() -> None:
    model = host()
    ensure(model)
    following = attachment_for(CONFIG, "kvedge0-next", POD.address, POD.mac)
    for pod in (POD, following):
        attach(model, pod)
    hosts = model.tables[Family.IP, CONFIG.table][HOSTS.name]
    for pod, left in ((POD, True), (following, False)):
        for step in plan_detaching(CONFIG, model.seen_by_node(), pod.netns):
            model.apply(step)
        assert (address_key(POD.address) in hosts) is left
    assert hosts == {address_key("10.99.0.255")}


def test_no_port_is_made_for_a_bridge_that_is_gone() -> None:
    model = host()
    with pytest.raises(NetworkError, match="kvedge0"):
        attach(model)
    assert len(model.links) == 1


def test_a_pod_on_the_bridge_may_speak_as_itself_alone() -> None:
    model = host()
    ensure(model)
    attach(model)
    mac = bytes.fromhex("525400000007")
    assert sets_of(model) == {
        PORT_MACS.name: {port_mac_key(POD.port, mac)},
        PORT_ADDRESSES.name: {port_address_key(POD.port, "10.99.0.7"), port_address_key(POD.port, "0.0.0.0")},
    }


def test_a_pod_may_speak_before_its_port_is_up_and_never_the_other_way_round() -> None:
    model = host()
    ensure(model)
    kinds = [type(step).__name__ for step in attach(model)]
    assert kinds == [
        "AddVeth",
        "SetSysctl",
        "SetLink",
        "ChangeElements",
        "ChangeElements",
        "SetLink",
        "KnowMac",
        "SetLink",
    ]


@pytest.mark.parametrize("done", range(9))
def test_an_attachment_that_was_cut_short_is_finished(done: int) -> None:
    expected, model = host(), host()
    for each in (expected, model):
        ensure(each)
    attach(expected)
    attach(model, stop_after=done)
    attach(model)
    assert model.picture() == expected.picture()


def test_a_port_that_leads_elsewhere_is_made_anew() -> None:
    model = host()
    ensure(model)
    attach(model)
    steps = attach(model, whole=False)
    assert steps[0] == DeleteLink(POD.port)
    assert model.link(POD.port).up


def test_a_pod_that_got_another_address_loses_the_old_one() -> None:
    model = host()
    ensure(model)
    attach(model)
    attach(model, replace(POD, address="10.99.0.8"))
    addresses = {port_address_key(POD.port, address) for address in ("10.99.0.8", "0.0.0.0")}
    assert sets_of(model)[PORT_ADDRESSES.name] == addresses
    assert [each.address for each in attachments_of(CONFIG, model.links.values())] == ["10.99.0.8"]


def test_a_detached_pod_leaves_nothing() -> None:
    model = host()
    ensure(model)
    before = model.picture()
    attach(model)
    for step in plan_detaching(CONFIG, model.seen_by_node(), POD.netns):
        model.apply(step)
    assert model.picture() == before
    assert plan_detaching(CONFIG, model.seen_by_node(), POD.netns) == []


@pytest.mark.parametrize("way", ["it goes", "it gets another MAC"])
def test_of_two_pods_with_one_mac_each_may_speak_and_the_earlier_is_heard_of(way: str) -> None:
    model = host()
    ensure(model)
    following = attachment_for(CONFIG, "kvedge0-next", "10.99.0.8", POD.mac)
    for pod in (POD, following):
        attach(model, pod)
    assert ("kvedge0", POD.mac, POD.port) in model.picture()["known MACs"]  # type: ignore[operator]
    if way == "it goes":
        for step in plan_detaching(CONFIG, model.seen_by_node(), POD.netns):
            model.apply(step)
        heal(model)
        assert model.picture()["known MACs"] == {("kvedge0", POD.mac, following.port)}
    else:
        attach(model, replace(POD, mac="52:54:00:00:00:09"))
    mac = bytes.fromhex("525400000007")
    assert port_mac_key(POD.port, mac) not in sets_of(model)[PORT_MACS.name]
    assert port_mac_key(following.port, mac) in sets_of(model)[PORT_MACS.name]


@pytest.mark.parametrize("calls", [False, True])
def test_a_port_lets_a_guest_reach_itself_where_bridged_frames_pass_the_tables(calls: bool) -> None:
    seen = replace(host().seen_by_node(), bridged_calls=calls)
    bridge, port = Link(4, "kvedge0", "bridge", "02:00:00:00:00:09", 1500, True), POD.port
    steps = plan_port(CONFIG, replace(seen, links=(bridge,)), POD, NETNS, whole=False)
    joining = next(step for step in steps if isinstance(step, SetLink) and step.master)
    assert joining == SetLink(port, master="kvedge0", learning=False, hairpin=True if calls else None)
    there = Link(5, port, "veth", POD.mac, 1500, True, master=4, alias=POD.alias, learning=False, hairpin=True)
    steps = plan_port(CONFIG, replace(seen, links=(bridge, there)), POD, NETNS, whole=True)
    assert SetLink(port, hairpin=True) not in steps
    steps = plan_port(CONFIG, replace(seen, links=(bridge, replace(there, hairpin=False))), POD, NETNS, whole=True)
    assert (SetLink(port, hairpin=True) in steps) is calls


def test_inside_the_pod_a_nic_with_address_and_way_out_is_made() -> None:
    model = NamespaceModel()
    model.add_link("lo", "")
    model.add_link("eth0", "veth")
    for step in plan_inside(CONFIG, tuple(model.links.values()), tuple(model.addresses), POD):
        model.apply(step)
    assert (model.link("eth0").mac, model.link("eth0").up, model.link("lo").up) == (POD.mac, True, True)
    assert ("eth0", "10.99.0.7", 24) in model.picture()["addresses"]  # type: ignore[operator]
    assert ("eth0", "0.0.0.0/0", "10.99.0.1") in model.picture()["routes"]  # type: ignore[operator]
    again = plan_inside(CONFIG, tuple(model.links.values()), tuple(model.addresses), POD)
    assert [type(step) for step in again] == [AddRoute]
