"""The binding's plan against a model of a namespace: complete, resumable anywhere, undone without a trace."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.network.binding.binding_state import Record, Seen, keep_lent_name, names_for
from kvedge.network.binding.bridge_binding_plan import (
    bridge_mac,
    forget_offers,
    guard_table,
    make_record,
    nic_mac,
    plan_binding,
)
from kvedge.network.errors import LostStateError, NetworkError, UnsuitablePodError
from kvedge.network.link_types import Address, Route
from kvedge.network.nft.nft_tables import Family, Rule, Table
from kvedge.network.steps import (
    AddTable,
    AddTap,
    DeleteLink,
    DeleteTable,
    ForgetOwnMac,
    SetLink,
    Step,
)
from tests.support.values import replace
from tests.unit.network.namespace_model import NamespaceModel

NAMES = names_for("eth0", 0)
OWNER = (107, 107)
POD_MAC = "52:54:00:aa:bb:cc"
GUEST_MAC = "02:00:00:00:00:99"


def fresh_pod(ipv6: bool = True, kind: str = "veth") -> NamespaceModel:
    """A Pod's namespace as a CNI leaves it."""
    model = NamespaceModel(ipv6=ipv6)
    model.apply(SetLink(model.add_link("lo", "").name, up=True))
    model.add_link("eth0", kind, mac=POD_MAC, mtu=1450)
    model.apply(SetLink("eth0", up=True))
    index = model.link("eth0").index
    model._add_address(model.link("eth0"), "10.42.0.7", 24)
    if ipv6:
        model._add_address(model.link("eth0"), "fd00::7", 64)
        model._add_address(model.link("eth0"), "fe80::1234", 64)
    model.routes += [
        Route("0.0.0.0/0", "10.42.0.1", index, protocol=3),
        Route("10.42.0.0/16", "10.42.0.1", index, protocol=3),
        Route("169.254.20.10/32", "", index, protocol=3),
    ]
    if ipv6:
        model.routes.append(Route("::/0", "fd00::1", index, protocol=3, metric=1024))
    return model


def record_of(model: NamespaceModel) -> Record:
    return make_record("boot/4:1", model.seen(NAMES), NAMES)


def test_a_nic_that_is_lent_keeps_its_name_and_its_mac() -> None:
    """CNI's host-device asks for it by that name when the Pod ends."""
    model, lent = fresh_pod(), keep_lent_name(NAMES)
    model.apply(SetLink("eth0", alias="eno2"))
    record = make_record("boot/4:1", model.seen(lent), lent)
    for step in plan_binding(record, model.seen(lent), lent, GUEST_MAC, OWNER, 1):
        model.apply(step)
    assert plan_binding(record, model.seen(lent), lent, GUEST_MAC, OWNER, 1) == []
    nic = model.link("eth0")
    assert (nic.index, nic.mac, nic.master) == (record.index, POD_MAC, model.link(NAMES.bridge).index)
    assert model.seen(lent).link(NAMES.nic) is None
    assert model.seen(lent).addresses_of(nic) == ()
    # Two with one MAC on one link would both be spoken to.
    assert nic_mac(nic, record, lent, POD_MAC) == bridge_mac(POD_MAC, NAMES.bridge)


def test_a_guest_that_is_not_served_is_on_the_link_with_nothing_between() -> None:
    model, served = fresh_pod(), whole()[0]
    record = record_of(model)
    for step in plan_binding(record, model.seen(NAMES), NAMES, GUEST_MAC, OWNER, 1, serves=False):
        model.apply(step)
    assert plan_binding(record, model.seen(NAMES), NAMES, GUEST_MAC, OWNER, 1, serves=False) == []
    bridge = model.link(NAMES.bridge)
    addresses = {each.address for each in model.seen(NAMES).addresses_of(bridge)}
    assert NAMES.server not in addresses
    assert NAMES.server in {each.address for each in served.seen(NAMES).addresses_of(served.link(NAMES.bridge))}
    # What others know the Pod by stays with its name, and the guest may ask whoever answers DHCP there.
    assert {each.address for each in model.seen(NAMES).addresses_of(model.link("eth0"))} >= {"10.42.0.7", "fd00::7"}
    fences = forwarded(guard_table(NAMES, forget_offers(record), GUEST_MAC))
    assert len(fences) == 1 < len(forwarded(guard_table(NAMES, record, GUEST_MAC)))


def bind(model: NamespaceModel, record: Record, queues: int = 1, stop_after: int | None = None) -> list[Step]:
    """Applies the plan, all of it or its first steps; returns what was planned."""
    steps = plan_binding(record, model.seen(NAMES), NAMES, GUEST_MAC, OWNER, queues)
    for step in steps[:stop_after]:
        model.apply(step)
    return steps


def whole(ipv6: bool = True, kind: str = "veth") -> tuple[NamespaceModel, Record]:
    """A namespace that was bound without interruption."""
    model = fresh_pod(ipv6, kind)
    record = record_of(model)
    bind(model, record)
    return model, record


@pytest.mark.parametrize("ipv6", [True, False], ids=["with IPv6", "a kernel without IPv6"])
def test_a_bound_pod_has_kubevirts_objects(ipv6: bool) -> None:
    model, _ = whole(ipv6)
    bridge, nic, tap, stand_in = (model.link(name) for name in ("k6t-eth0", "eth0-nic", "tap0", "eth0"))
    picture = model.picture()
    assert picture["masters"] == {"lo": "", "eth0-nic": "k6t-eth0", "k6t-eth0": "", "tap0": "k6t-eth0", "eth0": ""}
    assert (nic.mac, nic.learning, nic.up) == (bridge.mac, False, True)
    assert (stand_in.kind, stand_in.mac, stand_in.mtu, stand_in.up) == ("dummy", POD_MAC, 1450, False)
    assert (bridge.mtu, tap.mtu, tap.multi_queue) == (1450, 1450, False)
    assert model.owners["tap0"] == OWNER
    wanted = {("k6t-eth0", "169.254.75.10", 32), ("eth0", "10.42.0.7", 24)}
    assert picture["addresses"] == wanted | ({("eth0", "fd00::7", 64)} if ipv6 else set())
    assert model.tables.keys() == {(Family.BRIDGE, NAMES.guard)}
    assert model.sysctls["ipv4/conf/all/arp_ignore"] == "1"
    assert model.sysctls["ipv4/conf/k6t-eth0/accept_local"] == "1"
    assert model.sysctls["ipv4/ip_unprivileged_port_start"] == "0"


def test_a_bound_pod_needs_nothing_more() -> None:
    model, record = whole()
    assert bind(model, record) == []


def test_dhcp_is_fenced_in_before_anything_else_changes() -> None:
    model = fresh_pod()
    assert (
        plan_binding(record_of(model), model.seen(NAMES), NAMES, GUEST_MAC, OWNER, 1)[0].__class__.__name__
        == "AddTable"
    )


def count_of_steps(ipv6: bool = True) -> int:
    model = fresh_pod(ipv6)
    return len(plan_binding(record_of(model), model.seen(NAMES), NAMES, GUEST_MAC, OWNER, 1))


@pytest.mark.parametrize("done", range(count_of_steps() + 1))
@pytest.mark.parametrize("kind", ["veth", "macvlan"])
def test_a_binding_that_was_cut_short_is_finished(done: int, kind: str) -> None:
    expected, _ = whole(kind=kind)
    model = fresh_pod(kind=kind)
    record = record_of(model)
    bind(model, record, stop_after=done)
    bind(model, record)
    assert model.picture() == expected.picture()
    assert bind(model, record) == []


@settings(max_examples=150)
@given(
    st.lists(st.integers(0, 36), max_size=6),
    st.booleans(),
    st.sampled_from(["veth", "macvlan"]),
)
def test_after_any_interrupted_history_binding_binds(history: list[int], ipv6: bool, kind: str) -> None:
    expected, _ = whole(ipv6, kind)
    model = fresh_pod(ipv6, kind)
    record = record_of(model)
    for stop_after in history:
        bind(model, record, stop_after=stop_after)
    bind(model, record)
    assert model.picture() == expected.picture()
    assert bind(model, record) == []


def test_a_pod_bound_by_another_version_stays_bound_and_gets_this_versions_guard() -> None:
    model, record = whole()
    before = model.picture()
    newer = replace(NAMES, guard="kvedge_guard_27_eth0")
    steps = plan_binding(record, model.seen(newer), newer, GUEST_MAC, OWNER, 1)
    assert [type(step) for step in steps] == [AddTable, DeleteTable]
    for step in steps:
        model.apply(step)
    assert model.tables.keys() == {(Family.BRIDGE, newer.guard)}
    bind(model, record)
    assert model.picture() == before


def test_the_guard_of_another_interface_is_another() -> None:
    model, record = whole()
    second = names_for("net1", 1)
    model.add_link("net1", "veth")
    assert make_record("boot/4:1", model.seen(second), second).name == "net1"
    assert DeleteTable(Family.BRIDGE, NAMES.guard) not in plan_binding(
        make_record("boot/4:1", model.seen(second), second), model.seen(second), second, GUEST_MAC, OWNER, 1
    )
    assert bind(model, record) == []


def test_several_queues_make_a_tap_of_several() -> None:
    model, record = whole()
    steps = bind(model, record, queues=4)
    assert [step for step in steps if isinstance(step, (DeleteLink, AddTap))] == [
        DeleteLink("tap0"),
        AddTap("tap0", OWNER, multi_queue=True),
    ]
    assert model.link("tap0").multi_queue
    assert bind(model, record, queues=4) == []


def test_a_tap_that_qemu_has_open_is_never_exchanged() -> None:
    model, record = whole()
    tap = model.link("tap0")
    model.links[tap.index] = replace(tap, carrier=True)
    assert bind(model, record, queues=4) == []


def test_a_pod_without_ipv4_gets_no_dhcp_server() -> None:
    model = fresh_pod()
    model.addresses = [each for each in model.addresses if each.version == 6]
    record = record_of(model)
    bind(model, record)
    assert ("k6t-eth0", "169.254.75.10", 32) not in model.picture()["addresses"]  # type: ignore[operator]


def test_a_changed_namespace_without_a_record_cannot_be_bound() -> None:
    model, _ = whole()
    with pytest.raises(LostStateError, match="replace the Pod"):
        record_of(model)


def test_a_pod_whose_interface_vanished_must_be_replaced() -> None:
    model, record = whole()
    model.apply(DeleteLink("eth0-nic"))
    with pytest.raises(LostStateError, match="gone"):
        plan_binding(record, model.seen(NAMES), NAMES, GUEST_MAC, OWNER, 1)


def test_a_pod_without_such_an_interface_is_told_apart_from_a_lost_one() -> None:
    empty = Seen(links=(), addresses=(), routes=(), guards=(), sysctls={})
    with pytest.raises(NetworkError, match="no such interface") as caught:
        make_record("boot/4:1", empty, NAMES)
    assert not isinstance(caught.value, LostStateError)
    assert "look at the CNI configuration" in caught.value.remedy
    with pytest.raises(NetworkError, match="no such interface") as caught:
        make_record("boot/4:1", empty, names_for("pod0123456789a", 1))
    assert "whether Multus is installed" in caught.value.remedy


def test_link_local_addresses_are_not_recorded() -> None:
    assert [each.address for each in record_of(fresh_pod()).addresses] == ["10.42.0.7", "fd00::7"]


def test_an_address_of_ipv6_is_left_out_where_new_links_have_none() -> None:
    model = fresh_pod()
    model.sysctls["ipv6/conf/default/disable_ipv6"] = "1"
    record = record_of(model)
    bind(model, record)
    assert ("eth0", "fd00::7", 64) not in model.picture()["addresses"]  # type: ignore[operator]
    assert bind(model, record) == []


def test_only_the_pods_own_main_routes_are_recorded() -> None:
    model = fresh_pod()
    index = model.link("eth0").index
    foreign = [Route("10.9.0.0/16", "10.42.0.1", index, table=100), Route("10.8.0.0/16", "", index + 7)]
    model.routes += foreign
    assert not set(foreign) & set(record_of(model).routes)


@pytest.mark.parametrize(
    ("interface", "names"),
    [
        ("eth0", ("k6t-eth0", "eth0-nic", "tap0")),
        ("net1", ("k6t-net1", "net1-nic", "tap1")),
        ("pod16477688c0e", ("k6t-16477688c0e", "16477688c0e-nic", "tap16477688c0e")),
    ],
)
def test_names_are_kubevirts_and_fit(interface: str, names: tuple[str, str, str]) -> None:
    made = names_for(interface, 3)
    assert (made.bridge, made.nic, made.tap) == names
    assert made.server == "169.254.75.13"
    assert all(len(name) <= 15 for name in names)


@pytest.mark.parametrize(("interface", "index"), [("averylongname", 0), ("eth0", -1), ("eth0", 100), ("", 0)])
def test_names_that_would_not_fit_are_refused(interface: str, index: int) -> None:
    with pytest.raises(NetworkError):
        names_for(interface, index)


def test_a_bridges_mac_is_its_own_and_stays() -> None:
    mac = bridge_mac(POD_MAC, "k6t-eth0")
    assert mac == bridge_mac(POD_MAC, "k6t-eth0")
    assert mac not in (POD_MAC, bridge_mac(POD_MAC, "k6t-net1"))
    first = int(mac[:2], 16)
    assert first & 0b11 == 0b10


def test_the_guard_is_about_the_pods_side_alone() -> None:
    table = guard_table(NAMES, record_of(fresh_pod()), GUEST_MAC)
    assert {chain.name for chain in table.chains if chain.hook is not None} == {
        "prerouting",
        "forward",
        "input",
        "output",
    }
    assert len(forwarded(table)) == 7


def forwarded(table: Table) -> tuple[Rule, ...]:
    """The rules about what passes between the guest and the Pod's side."""
    return next(chain.rules for chain in table.chains if chain.name == "forward")


def test_a_record_counts_addresses_by_link() -> None:
    model = fresh_pod()
    model.addresses.append(Address(model.link("lo").index, "127.0.0.1", 8))
    assert "127.0.0.1" not in [each.address for each in record_of(model).addresses]


def test_a_nic_that_filters_by_mac_has_the_guests_and_the_bridge_does_not_keep_it() -> None:
    model, record = whole(kind="macvlan")
    nic = model.link("eth0-nic")
    assert nic.mac == GUEST_MAC != model.link("k6t-eth0").mac
    assert (nic.index, GUEST_MAC) not in model.own_macs
    model.own_macs.add((nic.index, GUEST_MAC))
    assert bind(model, record) == [ForgetOwnMac("eth0-nic", GUEST_MAC)]


@pytest.mark.parametrize("kind", ["ipvlan", "wireguard"])
def test_a_kind_that_cannot_be_a_bridge_port_is_refused_with_a_remedy(kind: str) -> None:
    with pytest.raises(UnsuitablePodError, match=rf"it is {kind} that.*have a CNI that gives each Pod a MAC"):
        record_of(fresh_pod(kind=kind))


def test_an_interface_without_a_mac_is_refused() -> None:
    model = fresh_pod()
    index = model.link("eth0").index
    model.links[index] = replace(model.links[index], mac="")
    with pytest.raises(UnsuitablePodError, match="without a MAC"):
        record_of(model)


def test_the_bridge_speaks_ipv6_only_where_the_guest_gets_an_address_of_it() -> None:
    model, _ = whole()
    assert model.sysctls["ipv6/conf/k6t-eth0/disable_ipv6"] == "0"
    assert (model.sysctls["ipv6/conf/k6t-eth0/accept_ra"], model.sysctls["ipv6/conf/k6t-eth0/accept_dad"]) == ("0", "0")
    model = fresh_pod()
    model.addresses = [each for each in model.addresses if each.version == 4]
    bind(model, record_of(model))
    assert model.sysctls["ipv6/conf/k6t-eth0/disable_ipv6"] == "1"


def test_what_a_router_told_the_pod_is_left_to_the_router() -> None:
    model = fresh_pod()
    model.addresses = [replace(each, dynamic=each.version == 6) for each in model.addresses]
    record = record_of(model)
    bind(model, record)
    assert record.ipv6 is None
    assert len(forwarded(guard_table(NAMES, record, GUEST_MAC))) == 5
    assert ("eth0", "fd00::7", 64) not in model.picture()["addresses"]  # type: ignore[operator]


def test_on_a_link_to_which_the_cni_left_the_addresses_dhcp_passes() -> None:
    model = fresh_pod()
    model.addresses = []
    assert len(forwarded(guard_table(NAMES, record_of(model), GUEST_MAC))) == 1


def test_an_mtu_that_no_tap_can_have_is_cut() -> None:
    model = fresh_pod()
    model.apply(SetLink("eth0", mtu=65535))
    record = record_of(model)
    bind(model, record)
    assert {name: model.link(name).mtu for name in ("k6t-eth0", "tap0", "eth0-nic", "eth0")} == {
        "k6t-eth0": 65521,
        "tap0": 65521,
        "eth0-nic": 65535,
        "eth0": 65535,
    }
    assert bind(model, record) == []


def test_bridged_frames_are_not_tracked_where_the_host_tracks_those_of_its_bridges() -> None:
    model = fresh_pod()
    model.sysctls["bridge/bridge-nf-call-iptables"] = "1"
    record = record_of(model)
    bind(model, record)
    assert model.sysctls["bridge/bridge-nf-call-iptables"] == "0"


def test_a_link_too_small_for_ipv6_has_no_settings_of_it() -> None:
    model = fresh_pod()
    model.addresses = [each for each in model.addresses if each.version == 4]
    model.apply(SetLink("eth0", mtu=1279))
    record = record_of(model)
    bind(model, record)
    assert bind(model, record) == []
