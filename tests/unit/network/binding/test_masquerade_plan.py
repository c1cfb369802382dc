"""The masquerade's plan against a model of a namespace: complete, resumable anywhere, and then nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.network.binding.binding_state import names_for
from kvedge.network.binding.masquerade_plan import (
    mtu_of,
    plan_masquerade,
    plan_wanted_masquerade,
    shortfalls,
)
from kvedge.network.binding.masquerade_rules import Masquerade
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address, Route
from kvedge.network.nft.nft_tables import Family
from kvedge.network.steps import AddTap, DeleteTable, RemoveAddress, ReplaceTable, SetLink, SetSysctl, Step
from kvedge.resources.masquerade import BRIDGE_MAC, DEFAULT_CIDR, DEFAULT_IPV6_CIDR, parse_guest_subnet
from tests.support.values import replace
from tests.unit.network.namespace_model import NamespaceModel

NAMES = names_for("eth0", 0)
OWNER = (107, 107)
GUEST_MAC = "02:00:00:00:00:99"
SUBNETS = {4: parse_guest_subnet(DEFAULT_CIDR, 4), 6: parse_guest_subnet(DEFAULT_IPV6_CIDR, 6)}
TCP = 6
WEB = frozenset({(TCP, 80)})
ACCEPT_RA = "ipv6/conf/eth0/accept_ra"


def pod(*, versions: tuple[int, ...] = (4, 6), mtu: int = 1450, kernel_ipv6: bool = True) -> NamespaceModel:
    """A Pod's namespace as a CNI leaves it."""
    model = NamespaceModel(ipv6=kernel_ipv6)
    model.apply(SetLink(model.add_link("lo", "").name, up=True))
    model.add_link("eth0", "veth", mac="52:54:00:aa:bb:cc", mtu=mtu)
    model.apply(SetLink("eth0", up=True))
    if 4 in versions:
        model._add_address(model.link("eth0"), "10.42.0.7", 24)
    if 6 in versions and mtu >= 1280:
        model._add_address(model.link("eth0"), "fd00::7", 64)
    if kernel_ipv6 and mtu >= 1280:
        model._add_address(model.link("eth0"), "fe80::1234", 64)
    return model


def wanted_in(model: NamespaceModel, ports: frozenset[tuple[int, int]] = frozenset()) -> Masquerade:
    return plan_wanted_masquerade(model.seen(NAMES), NAMES, GUEST_MAC, SUBNETS, ports=ports)


def bind(
    model: NamespaceModel,
    ports: frozenset[tuple[int, int]] = frozenset(),
    queues: int = 1,
    stop_after: int | None = None,
) -> list[Step]:
    """Applies the plan, all of it or its first steps; returns what was planned."""
    steps = plan_masquerade(wanted_in(model, ports), model.seen_by_masquerade(NAMES), OWNER, queues)
    for step in steps[:stop_after]:
        model.apply(step)
    return steps


def whole(**kind: object) -> NamespaceModel:
    model = pod(**kind)  # type: ignore[arg-type]
    bind(model)
    return model


def test_a_masqueraded_pod_has_kubevirts_objects_and_its_own_nic_as_it_was() -> None:
    before = pod().link("eth0")
    model = whole()
    bridge, tap = model.link("k6t-eth0"), model.link("tap0")
    assert model.link("eth0") == before
    assert (bridge.mac, bridge.mtu, bridge.up) == (BRIDGE_MAC, 1450, True)
    assert (tap.master, tap.mtu, tap.learning, tap.up) == (bridge.index, 1450, False, True)
    assert model.owners["tap0"] == OWNER
    assert {(each.address, each.prefix_length) for each in model.seen(NAMES).addresses_of(bridge)} == {
        ("10.0.2.1", 24),
        ("fd10:0:2::1", 120),
        ("fe80::1", 64),
    }
    assert {family for family, _ in model.tables} == {Family.BRIDGE, Family.INET}
    assert model.sysctls["ipv4/ip_forward"] == model.sysctls["ipv6/conf/all/forwarding"] == "1"
    assert model.sysctls["ipv4/conf/k6t-eth0/route_localnet"] == "1"


@pytest.mark.parametrize(
    "kind",
    [{"versions": (4,)}, {"versions": (6,)}, {}, {"versions": (4,), "kernel_ipv6": False}, {"mtu": 1200}],
    ids=["IPv4", "IPv6", "both", "a kernel without IPv6", "a link too small for IPv6"],
)
def test_what_is_bound_needs_nothing_more(kind: dict[str, object]) -> None:
    assert bind(whole(**kind)) == []


def test_a_guest_has_the_ip_versions_of_its_pod_alone() -> None:
    model = whole(versions=(4,))
    assert [each.version for each in wanted_in(model).addresses] == [4]
    assert model.sysctls["ipv6/conf/all/forwarding"] == "0"
    assert model.sysctls["ipv6/conf/k6t-eth0/disable_ipv6"] == "1"
    model = whole(versions=(6,))
    assert [each.version for each in wanted_in(model).addresses] == [6]
    assert model.sysctls["ipv4/ip_forward"] == "0"


def test_a_pod_forwards_nothing_before_it_filters_what_it_forwards() -> None:
    steps = bind(pod())
    kinds = [type(step) for step in steps]
    assert kinds[:2] == [ReplaceTable, ReplaceTable]
    assert [step.name for step in steps[-2:] if isinstance(step, SetSysctl)] == [
        "ipv4/ip_forward",
        "ipv6/conf/all/forwarding",
    ]


def test_a_pod_that_listens_to_its_router_goes_on_to() -> None:
    model = pod()
    steps = bind(model)
    assert model.sysctls[ACCEPT_RA] == "2"
    # Before the kernel forgets what the router told.
    assert steps.index(SetSysctl(ACCEPT_RA, "2")) < steps.index(SetSysctl("ipv6/conf/all/forwarding", "1"))
    silent = pod()
    silent.sysctls[ACCEPT_RA] = "0"
    bind(silent)
    assert silent.sysctls[ACCEPT_RA] == "0"


COUNT = len(bind(pod()))


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, COUNT), max_size=6),
    st.sampled_from([(4,), (6,), (4, 6)]),
    st.sampled_from([frozenset(), WEB]),
)
def test_after_any_interrupted_history_the_plan_converges_and_then_does_nothing(
    history: list[int], versions: tuple[int, ...], ports: frozenset[tuple[int, int]]
) -> None:
    expected = pod(versions=versions)
    bind(expected, ports)
    model = pod(versions=versions)
    for turn, stop_after in enumerate(history):
        # Now with these ports, now with none: as after a change of what is wanted.
        bind(model, ports if turn % 2 else frozenset(), stop_after=stop_after)
    bind(model, ports)
    assert model.picture() == expected.picture()
    assert bind(model, ports) == []


def test_a_table_that_lacks_a_rule_is_made_anew_and_nothing_else() -> None:
    model = whole()
    looked = replace(model.seen_by_masquerade(NAMES), whole=frozenset())
    steps = plan_masquerade(wanted_in(model), looked, OWNER, 1)
    assert [type(step) for step in steps] == [ReplaceTable, ReplaceTable]
    assert all(isinstance(step, ReplaceTable) and step.instead_of == () for step in steps)


def test_other_ports_replace_the_earlier_table_in_one_step() -> None:
    model = whole()
    old = next(name for family, name in model.tables if family is Family.INET)
    steps = bind(model, WEB)
    assert [(type(step), getattr(step, "instead_of", None)) for step in steps] == [(ReplaceTable, (old,))]
    assert not any(isinstance(step, DeleteTable) for step in steps)


def test_a_tap_in_use_is_never_exchanged() -> None:
    model = whole()
    tap = model.link("tap0")
    model.links[tap.index] = replace(tap, carrier=True)
    assert bind(model, queues=4) == []
    model.links[tap.index] = tap
    assert any(isinstance(step, AddTap) and step.multi_queue for step in bind(model, queues=4))


def test_an_address_of_an_earlier_network_is_taken_off_the_bridge() -> None:
    model = whole()
    model._add_address(model.link("k6t-eth0"), "10.9.9.1", 24)
    assert bind(model) == [RemoveAddress("k6t-eth0", "10.9.9.1", 24)]


def test_a_pod_with_an_address_or_a_gateway_in_the_guests_network_is_refused_with_the_field() -> None:
    model = pod()
    model._add_address(model.link("eth0"), "10.0.2.200", 24)
    with pytest.raises(NetworkError, match=r"10\.0\.2\.0/24 has 10\.0\.2\.200.*vmNetworkCIDR"):
        wanted_in(model)
    model = pod()
    model.routes.append(Route("::/0", "fd10:0:2::fe", model.link("eth0").index))
    with pytest.raises(NetworkError, match="vmIPv6NetworkCIDR"):
        wanted_in(model)


def test_a_wider_network_of_the_pods_is_bound_and_told() -> None:
    model = pod(versions=())
    model._add_address(model.link("eth0"), "10.0.77.7", 16)
    bind(model)
    assert bind(model) == []
    assert list(shortfalls(wanted_in(model), model.seen(NAMES))) == [
        "the guest cannot reach 10.0.2.0/24 in the Pod's network 10.0.0.0/16: it is the guest's own"
    ]


def test_a_pod_without_the_interface_is_refused() -> None:
    with pytest.raises(NetworkError, match="no such interface"):
        wanted_in(NamespaceModel())


def test_only_addresses_that_others_know_make_a_guest_reachable() -> None:
    model = pod(versions=())
    eth0 = model.link("eth0").index
    model.addresses.append(Address(eth0, "169.254.3.3", 16))
    assert wanted_in(model).addresses == ()
    assert list(shortfalls(wanted_in(model), model.seen(NAMES))) == [
        "the CNI gave the Pod's eth0 no address: the guest has no network"
    ]


def test_what_a_guest_lacks_is_said() -> None:
    small = pod(mtu=1200)
    small.addresses.append(Address(small.link("eth0").index, "fd00::7", 64, 6))
    assert list(shortfalls(wanted_in(small), small.seen(NAMES))) == [
        "the guest gets no IPv6: the MTU of the Pod's eth0 is 1200, IPv6 needs 1280"
    ]
    large = pod(mtu=65536)
    assert mtu_of(large.seen(NAMES), NAMES) == 65521
    assert "65521" in next(iter(shortfalls(wanted_in(large), large.seen(NAMES))))
