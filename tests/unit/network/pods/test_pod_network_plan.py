"""The plans of one box's Pod network against a model of the host's namespace."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvedge.network.link_types import Route
from kvedge.network.nft.nft_rules import link_key
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import DEFAULT_ROUTE, NodeNetworkConfig, port_name, stable_mac
from kvedge.network.pods.forward_rules import APART, FENCE, OURS
from kvedge.network.pods.forwarding_plan import IP_FORWARD, links_kept_apart
from kvedge.network.pods.pod_network_plan import describe, mtu_for, plan_healing, plan_node_network, plan_removal
from kvedge.network.steps import ChangeElements, DeleteLink, KnowMac, ReplaceTable, SetLink, SetSysctl, Step
from tests.support.values import replace
from tests.unit.network.namespace_model import NamespaceModel
from tests.unit.network.pods.node_networks import CONFIG, POD, SECOND, attach, ensure, heal, host, remove, whole_of


def test_the_node_bridge_has_the_gateway_and_the_uplinks_mtu() -> None:
    model = host()
    ensure(model)
    bridge = model.link("kvedge0")
    assert (bridge.mtu, bridge.up, bridge.mac) == (1400, True, stable_mac("kvedge0"))
    assert ("kvedge0", "10.99.0.1", 24) in model.picture()["addresses"]  # type: ignore[operator]
    assert model.sysctls[IP_FORWARD] == "1"
    assert model.tables.keys() == {(Family.IP, "kvedge0"), (Family.BRIDGE, "kvedge0"), (Family.IP, FENCE)}


def test_a_working_node_network_only_has_its_tables_said_again() -> None:
    model = host()
    ensure(model)
    before = model.picture()
    told_its_mtu = [SetLink("kvedge0", mtu=1399), SetLink("kvedge0", mtu=1400)]
    assert {type(step) for step in ensure(model) if step not in told_its_mtu} <= {ReplaceTable, SetSysctl}
    assert model.picture() == before


@pytest.mark.parametrize("done", range(11))
def test_a_node_network_that_was_cut_short_is_finished_and_removed_without_a_trace(done: int) -> None:
    expected, model = host(), host()
    pristine = model.picture()
    ensure(expected)
    ensure(model, stop_after=done)
    ensure(model)
    assert model.picture() == expected.picture()
    remove(model)
    assert model.picture() == pristine


@pytest.mark.parametrize("done", range(9))
def test_a_removal_that_was_cut_short_is_finished(done: int) -> None:
    model = host()
    pristine = model.picture()
    ensure(model)
    attach(model)
    remove(model, stop_after=done)
    remove(model)
    assert model.picture() == pristine


@pytest.mark.parametrize("first_to_go", [CONFIG, SECOND], ids=["the older first", "the younger first"])
def test_forwarding_is_switched_off_by_the_last_of_several_instances(first_to_go: NodeNetworkConfig) -> None:
    model = host()
    ensure(model, CONFIG)
    ensure(model, SECOND)
    last_to_go = SECOND if first_to_go is CONFIG else CONFIG
    remove(model, first_to_go)
    assert model.sysctls[IP_FORWARD] == "1"
    remove(model, last_to_go)
    assert model.sysctls[IP_FORWARD] == "0"


def test_forwarding_that_was_on_stays_on() -> None:
    model = host()
    model.sysctls[IP_FORWARD] = "1"
    ensure(model)
    remove(model)
    assert model.sysctls[IP_FORWARD] == "1"


def test_forwarding_stays_on_for_those_who_came_later_and_need_it() -> None:
    model = host()
    ensure(model)
    seen = replace(model.seen_by_node(), foreign_nat=("ip/nat",))
    for step in plan_removal(CONFIG, seen):
        model.apply(step)
    assert model.sysctls[IP_FORWARD] == "1"


def fence_of(model: NamespaceModel) -> dict[str, set[bytes]] | None:
    return model.tables.get((Family.IP, FENCE))


def test_only_our_bridges_are_forwarded_for_where_we_switched_it_on() -> None:
    model = host()
    steps = ensure(model)
    kinds = [type(step) for step in steps]
    assert kinds.index(ReplaceTable) < steps.index(SetSysctl(IP_FORWARD, "1"))
    assert fence_of(model) == {OURS.name: {link_key("kvedge0")}, APART.name: set()}
    ensure(model, SECOND)
    assert fence_of(model) == {OURS.name: {link_key("kvedge0"), link_key("kve-abc123")}, APART.name: set()}
    remove(model, CONFIG)
    assert fence_of(model) == {OURS.name: {link_key("kve-abc123")}, APART.name: set()}
    remove(model, SECOND)
    assert fence_of(model) is None


def test_bridges_of_others_are_told_apart_as_they_come() -> None:
    model = host()
    ensure(model)
    for name in ("br0", "br1"):
        model.add_link(name, "bridge")
    heal(model)
    pairs = {link_key("br0") + link_key("br1"), link_key("br1") + link_key("br0")}
    assert fence_of(model) == {OURS.name: {link_key("kvedge0")}, APART.name: pairs}


def test_a_host_that_forwarded_before_goes_on_as_it_was() -> None:
    model = host()
    model.sysctls[IP_FORWARD] = "1"
    ensure(model)
    ensure(model, SECOND)
    heal(model)
    assert fence_of(model) is None


def test_where_one_link_forwarded_before_no_fence_is_put_up() -> None:
    model = host()
    for step in plan_node_network(CONFIG, replace(model.seen_by_node(), forwards=True)):
        model.apply(step)
    assert model.sysctls[IP_FORWARD] == "1"
    for config in (CONFIG, SECOND):
        ensure(model, config)
        assert fence_of(model) is None
    remove(model)
    remove(model, SECOND)
    assert model.sysctls[IP_FORWARD] == "1"


def test_links_of_others_are_named_where_there_are_two_and_a_fence() -> None:
    model = host()
    ensure(model)
    assert links_kept_apart("kvedge0", model.seen_by_node()) == ()
    model._add_address(model.add_link("eno2", ""), "198.51.100.2", 24)
    seen = model.seen_by_node()
    assert links_kept_apart("kvedge0", seen) == ("eno1", "eno2")
    assert links_kept_apart("kvedge0", replace(seen, fenced=False)) == ()


def test_the_fence_is_lifted_for_those_who_need_forwarding_and_comes_back_after_them() -> None:
    model = host()
    ensure(model)
    for nat, there in ((("ip/docker",), False), ((), True)):
        steps = plan_healing(CONFIG, replace(model.seen_by_node(), foreign_nat=nat), whole_of(model))
        for step in steps:
            model.apply(step)
        assert (fence_of(model) is not None) is there
        assert len(describe(steps)) == 1


def test_what_the_host_had_is_remembered_when_somebody_deletes_the_bridge() -> None:
    model = host()
    pristine = model.picture()
    ensure(model)
    model.apply(DeleteLink("kvedge0"))
    heal(model)
    assert fence_of(model) is not None
    remove(model)
    assert model.picture() == pristine


@pytest.mark.parametrize("mtu", [1200, 1279, 1280])
def test_a_way_out_that_is_too_small_for_ipv6_is_one(mtu: int) -> None:
    model = host()
    model.apply(SetLink("eno1", mtu=mtu))
    ensure(model)
    attach(model)
    ensure(model)
    attach(model)
    assert (model.link("kvedge0").mtu, model.link(POD.port).mtu) == (mtu, mtu)


def test_without_a_way_out_the_bridge_keeps_its_mtu_and_with_a_wider_one_that_of_its_pods() -> None:
    model = host()
    ensure(model)
    default = model.routes.pop()
    ensure(model)
    assert model.link("kvedge0").mtu == 1400
    attach(model)
    model.routes.append(default)
    model.apply(SetLink("eno1", mtu=9000))
    ensure(model)
    assert model.link("kvedge0").mtu == 1400
    model.apply(DeleteLink(POD.port))
    ensure(model)
    assert model.link("kvedge0").mtu == 9000


def test_the_smallest_way_out_decides_and_ways_of_other_tables_are_none() -> None:
    model = host()
    ensure(model)
    for name, mtu, route in (
        ("wwan0", 1380, Route(DEFAULT_ROUTE, "192.0.2.9", 0, metric=700)),
        ("tun0", 1360, Route("128.0.0.0/1", "", 0)),
        ("wg0", 1340, Route(DEFAULT_ROUTE, "", 0, table=51820)),
        ("lan0", 1320, Route("172.20.0.0/16", "", 0)),
    ):
        link = model.add_link(name, "", mtu=mtu)
        model.routes.append(replace(route, link=link.index))
    assert mtu_for(CONFIG, model.seen_by_node()) == 1360
    model.apply(DeleteLink("tun0"))
    assert mtu_for(CONFIG, model.seen_by_node()) == 1380


def test_a_bridge_that_an_earlier_kvedge_made_is_told_its_mtu_so_that_it_is_kept() -> None:
    model = host()
    ensure(model)
    assert ensure(model)[:2] == [SetLink("kvedge0", mtu=1399), SetLink("kvedge0", mtu=1400)]
    model.apply(SetLink("eno1", mtu=1500))
    assert ensure(model)[0] == SetLink("kvedge0", mtu=1500)
    assert not [step for step in ensure(model) if isinstance(step, SetLink)]


def test_a_configured_mtu_wins_and_a_host_without_a_way_out_has_ethernets() -> None:
    assert mtu_for(replace(CONFIG, mtu=9000), host().seen_by_node()) == 9000
    assert mtu_for(CONFIG, NamespaceModel().seen_by_node()) == 1500


def test_nothing_is_said_of_a_network_that_nobody_has_touched() -> None:
    model = host()
    ensure(model)
    attach(model)
    before = model.picture()
    steps = heal(model)
    assert {type(step) for step in steps} <= {SetSysctl, KnowMac, ChangeElements}
    assert describe(steps) == []
    assert model.picture() == before


UNDONE = {
    "the firewall was loaded anew": (
        lambda model: model.tables.clear(),
        ["table ip kvedge0 was not whole", "table bridge kvedge0 was not whole"],
    ),
    "NAT alone was taken away": (
        lambda model: model.tables.pop((Family.IP, "kvedge0")),
        ["table ip kvedge0 was not whole"],
    ),
    "sysctl --system": (lambda model: model.sysctls.update({IP_FORWARD: "0"}), ["ip_forward was 0"]),
    "the bridge was set down": (lambda model: model.apply(SetLink("kvedge0", up=False)), ["kvedge0 was down"]),
    "the gateway's address was taken": (
        lambda model: model._remove_address(model.link("kvedge0"), "10.99.0.1"),
        ["kvedge0 had no 10.99.0.1"],
    ),
    "a port was set down": (lambda model: model.apply(SetLink(POD.port, up=False)), [f"{POD.port} was down"]),
    "the bridge was deleted": (
        lambda model: model.apply(DeleteLink("kvedge0")),
        [
            "kvedge0 was gone",
            "kvedge0 had no 10.99.0.1",
            "kvedge0 was down",
            f"{POD.port} was not on kvedge0",
        ],
    ),
}


@pytest.mark.parametrize("what", UNDONE)
@pytest.mark.parametrize("again", [heal, ensure], ids=["while it runs", "at the next start"])
def test_what_others_undo_is_put_back(what: str, again: Callable[[NamespaceModel], list[Step]]) -> None:
    model = host()
    model.sysctls[IP_FORWARD] = "1"
    ensure(model)
    attach(model)
    before = model.picture()
    undo, said = UNDONE[what]
    undo(model)
    steps = again(model)
    assert model.picture() == before
    if again is heal:
        assert describe(steps) == said


def test_a_port_whose_attaching_was_cut_short_is_left_to_attaching() -> None:
    model = host()
    ensure(model)
    attach(model, stop_after=1)
    assert not model.link(POD.port).master
    heal(model)
    assert not model.link(POD.port).master


def test_present_pods_stay_in_the_tables_when_these_are_put_anew() -> None:
    model = host()
    ensure(model)
    attach(model)
    before = model.picture()
    model.tables.clear()
    ensure(model)
    assert model.picture() == before


def test_ports_and_a_bridge_that_an_earlier_kvedge_made_stop_learning() -> None:
    model = host()
    ensure(model)
    attach(model)
    before = model.picture()
    for name, learnt in ((POD.port, {"learning": True}), ("kvedge0", {"snooping": True})):
        link = model.link(name)
        model.links[link.index] = replace(link, **learnt)
    model.known_macs.clear()
    assert describe(heal(model)) == ["kvedge0 remembered multicast groups", f"{POD.port} learnt MACs"]
    assert model.picture() == before


def test_removal_touches_no_port_of_another_instance() -> None:
    model = host()
    ensure(model, CONFIG)
    ensure(model, SECOND)
    attach(model)
    foreign = port_name(SECOND.bridge, "kve-abc123-pod")
    model.add_link(foreign, "veth")
    model.add_link("veth1234", "veth")
    assert [step for step in remove(model) if isinstance(step, DeleteLink)] == [
        DeleteLink(POD.port),
        DeleteLink("kvedge0"),
    ]
    assert model.link(foreign)
