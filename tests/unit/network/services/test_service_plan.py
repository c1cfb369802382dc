# Tests: kvedge/network/services/service_rules.py
"""The service network: what is in the way, what changes, and that any order of changes leads to the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.link_types import PROTO_STATIC, Address, Link, Route
from kvedge.network.node_seen import NodeSeen
from kvedge.network.services.service_plan import (
    MOST_KEYS,
    Elements,
    ServiceNetworkConfig,
    check_overlap,
    find_gone,
    plan_services,
    table_name,
)
from kvedge.network.services.service_rules import (
    ANY_OWN,
    DIRECT,
    SLOTS,
    SPREAD,
    STICKY,
    Balanced,
    Frontend,
    service_elements,
)
from kvedge.network.steps import AddRoute, ChangeElements, RemoveRoute, ReplaceTable
from tests.support.values import replace

CONFIG = ServiceNetworkConfig(
    bridge="kvedge0", pod_cidr="10.99.0.0/24", service_cidr="10.100.0.0/16", table=table_name("kvedge0")
)
BRIDGE = Link(7, "kvedge0", "bridge", "02:00:00:00:00:01", 1500, True)
UPLINK = Link(2, "eno1", "", "02:00:00:00:00:02", 1500, True)
OURS = Route("10.100.0.0/16", "", 7)
SEEN = NodeSeen(
    links=(BRIDGE, UPLINK),
    addresses=(Address(2, "192.0.2.5", 24),),
    routes=(Route("0.0.0.0/0", "192.0.2.1", 2), OURS),
    ip_forward="1",
    ipv6=False,
)
WEB = Frontend("10.100.3.4", "TCP", 80)


def elements(*ports: Balanced) -> Elements:
    return service_elements(ports)


def test_a_service_with_one_endpoint_leads_straight_to_it() -> None:
    found = elements(Balanced(WEB, (("10.99.0.7", 8080),)))
    key = bytes([10, 100, 3, 4, 6, 0, 0, 0, 0, 80, 0, 0])
    assert found == {
        DIRECT.name: {key + bytes([10, 99, 0, 7, 0x1F, 0x90, 0, 0])},
        SPREAD.name: frozenset(),
        STICKY.name: frozenset(),
    }


@pytest.mark.parametrize("sticky", [False, True], ids=["by chance", "by the client"])
def test_several_endpoints_share_the_slots_evenly(sticky: bool) -> None:
    ways = (("10.99.0.7", 80), ("10.99.0.8", 80), ("10.99.0.9", 80))
    found = elements(Balanced(Frontend(ANY_OWN, "UDP", 30053), ways, sticky))
    taken = found[STICKY.name if sticky else SPREAD.name]
    assert len(taken) == SLOTS
    shares = [sum(each.endswith(bytes([10, 99, 0, last, 0, 80, 0, 0])) for each in taken) for last in (7, 8, 9)]
    assert sorted(shares) == [21, 21, 22]
    assert not found[DIRECT.name]


def test_a_service_without_endpoints_leads_nowhere() -> None:
    assert not any(elements(Balanced(WEB, ())).values())


def test_nothing_is_done_where_everything_is_as_it_should_be() -> None:
    wanted = elements(Balanced(WEB, (("10.99.0.7", 80),)))
    assert list(plan_services(CONFIG, SEEN, wanted, wanted)) == []


def test_a_table_that_is_not_whole_is_made_anew_with_all_that_is_in_it() -> None:
    wanted = elements(Balanced(WEB, (("10.99.0.7", 80),)))
    (step,) = plan_services(CONFIG, SEEN, None, wanted)
    assert isinstance(step, ReplaceTable)
    assert {name: frozenset(keys) for name, keys in step.elements.items()} == wanted


def test_only_what_differs_is_changed() -> None:
    other = Balanced(Frontend("10.100.9.9", "TCP", 22), (("10.99.0.9", 22),))
    before = elements(other, Balanced(WEB, (("10.99.0.7", 80),)))
    after = elements(other, Balanced(WEB, (("10.99.0.8", 80),)))
    (step,) = plan_services(CONFIG, SEEN, before, after)
    assert isinstance(step, ChangeElements)
    assert [len(step.add[DIRECT.name]), len(step.remove[DIRECT.name])] == [1, 1]


def test_the_route_comes_back() -> None:
    seen = replace(SEEN, routes=SEEN.routes[:1])
    nothing = elements()
    assert list(plan_services(CONFIG, seen, nothing, nothing)) == [AddRoute("kvedge0", OURS)]


def test_without_a_bridge_there_is_no_service_network() -> None:
    with pytest.raises(NetworkError, match="no bridge"):
        list(plan_services(CONFIG, replace(SEEN, links=(UPLINK,)), None, elements()))


def test_many_services_go_into_the_kernel_in_pieces_that_a_socket_takes() -> None:
    ways = (("10.99.0.7", 80), ("10.99.0.8", 80))
    ports = [Balanced(Frontend("10.100.3.4", "TCP", port), ways) for port in range(1, 101)]
    wanted, other = elements(*ports), elements(*(replace(port, endpoints=ways[:1]) for port in ports))
    for present in (None, elements(), other):
        sizes = []
        for step in plan_services(CONFIG, SEEN, present, wanted):
            assert isinstance(step, ReplaceTable | ChangeElements)
            added = step.elements if isinstance(step, ReplaceTable) else step.add
            sizes.append(sum(len(tuple(each)) for each in added.values()))
        assert sum(sizes) == 100 * SLOTS
        assert max(sizes) <= MOST_KEYS


def test_a_route_to_services_of_an_earlier_setting_goes() -> None:
    before = Route("10.44.0.0/16", "", 7, protocol=PROTO_STATIC)
    others = (
        replace(before, link=2),
        replace(before, protocol=2),
        replace(before, table=100),
        replace(before, gateway="10.99.0.9"),
        replace(before, destination="10.99.0.0/24"),
    )
    seen = replace(SEEN, routes=(*SEEN.routes, *others, before))
    assert list(plan_services(CONFIG, seen, elements(), elements())) == [RemoveRoute("kvedge0", before)]


PORTS = st.builds(
    Balanced,
    st.builds(
        Frontend,
        st.sampled_from(["10.100.0.1", "10.100.0.2", ANY_OWN]),
        st.sampled_from(["TCP", "UDP"]),
        st.integers(1, 3),
    ),
    st.lists(st.tuples(st.sampled_from(["10.99.0.2", "10.99.0.3"]), st.integers(80, 82)), max_size=3).map(tuple),
    st.booleans(),
)
STATES = st.lists(PORTS, max_size=5, unique_by=lambda each: each.frontend)


@given(st.lists(st.tuples(STATES, st.booleans()), min_size=1, max_size=6))
def test_any_order_of_changes_leads_to_what_is_wanted_last(states: list[tuple[list[Balanced], bool]]) -> None:
    kernel: dict[str, set[bytes]] | None = None
    for ports, is_lost in states:
        wanted = service_elements(ports)
        present = None if is_lost or kernel is None else {name: frozenset(keys) for name, keys in kernel.items()}
        for step in plan_services(CONFIG, SEEN, present, wanted):
            if isinstance(step, ReplaceTable):
                kernel = {name: set(keys) for name, keys in step.elements.items()}
            elif isinstance(step, ChangeElements):
                assert kernel is not None
                for name, keys in step.remove.items():
                    kernel[name] -= set(keys)
                for name, keys in step.add.items():
                    # A key that is there already cannot be given another way.
                    lengths = {each.name: each.key_length for each in step.table.sets}
                    has = {each[: lengths[name]] for each in kernel[name]}
                    assert not has & {each[: lengths[name]] for each in keys}
                    kernel[name] |= set(keys)
        assert kernel == wanted


@pytest.mark.parametrize(
    ("addresses", "routes", "words"),
    [
        ((Address(2, "10.100.7.7", 24),), (), "10.100.7.7/24 of eno1"),
        ((), (Route("10.100.0.0/16", "192.0.2.1", 2),), "10.100.0.0/16 of eno1"),
        ((), (Route("10.100.8.0/24", "192.0.2.1", 2),), "10.100.8.0/24 of eno1"),
    ],
    ids=["an address", "a route of the same width", "a longer route"],
)
def test_addresses_that_the_host_uses_are_refused(
    addresses: tuple[Address, ...], routes: tuple[Route, ...], words: str
) -> None:
    seen = replace(SEEN, addresses=addresses, routes=routes)
    with pytest.raises(OverlapError, match=f"--service-cidr 10.100.0.0/16 overlaps.*{words}"):
        check_overlap(CONFIG, seen)


@pytest.mark.parametrize(
    "routes",
    [
        (Route("10.0.0.0/8", "192.0.2.1", 2),),
        (Route("0.0.0.0/0", "192.0.2.1", 2), Route("128.0.0.0/1", "192.0.2.1", 2)),
        (OURS, Route("10.100.8.0/24", "192.0.2.1", 2)),
        (Route("10.100.8.0/24", "", 7),),
    ],
    ids=["a wider route", "default routes", "a VPN that came later", "our own of an earlier setting"],
)
def test_what_takes_no_packet_from_services_is_no_overlap(routes: tuple[Route, ...]) -> None:
    check_overlap(CONFIG, replace(SEEN, routes=routes))


def test_clients_of_udp_are_told_of_by_what_is_gone() -> None:
    names, other = Frontend("10.100.3.4", "UDP", 53), Frontend("10.100.3.5", "UDP", 53)
    one, two = ("10.99.0.7", 53), ("10.99.0.8", 53)
    before = [Balanced(names, (one, two)), Balanced(other, (one,)), Balanced(WEB, (one,))]
    assert find_gone(before, [Balanced(names, (two,)), Balanced(WEB, ())]) == {names: {one}, other: {one}}
    assert find_gone(before, before) == {}
    assert find_gone([], before) == {}
