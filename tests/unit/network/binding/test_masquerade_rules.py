# Tests: kvedge/network/nft/nft_nat_rules.py
"""What the tables of a masqueraded guest are made of, and when they are others; the kernel's reading is the machine
tests' matter."""

from __future__ import annotations

import pytest

from kvedge.network.binding.binding_state import names_for
from kvedge.network.binding.masquerade_rules import (
    GuestAddress,
    Masquerade,
    fence_table,
    nat_table,
    port_keys,
)
from kvedge.network.drop_rules import Reason, drop
from kvedge.network.nft.nft_nat_rules import (
    TCP,
    UDP,
    dnat_to,
    goes_to_port,
    goes_to_port_in,
    goes_to_port_within,
    port_key,
    snat_to,
)
from kvedge.network.nft.nft_tables import Expression, Family, Rule, Table
from kvedge.resources.masquerade import SIDECAR_PORTS
from tests.support.values import replace

IPV4 = GuestAddress(4, "10.0.2.2", "10.0.2.1", 24, "10.42.0.7")
IPV6 = GuestAddress(6, "fd10:0:2::2", "fd10:0:2::1", 120, "fd00::7")
BOTH = Masquerade(names_for("eth0", 0), "52:54:00:00:00:07", (IPV4, IPV6))


def rules(table: Table, chain: str) -> tuple[Rule, ...]:
    return next(each.rules for each in table.chains if each.name == chain)


def ends_in(rule: Rule, end: Rule) -> bool:
    return rule[-len(end) :] == end


def holds(rule: Rule, part: Rule) -> bool:
    return any(rule[first : first + len(part)] == part for first in range(len(rule)))


def test_without_ports_everything_of_each_version_goes_to_the_guest() -> None:
    table = nat_table(BOTH)
    assert (table.family, [each.name for each in table.sets]) == (Family.INET, ["flows4", "flows6"])
    inbound = rules(table, "prerouting")
    assert [ends_in(rule, dnat_to(to)) for rule, to in zip(inbound, ("10.0.2.2", "fd10:0:2::2"), strict=True)] == [
        True,
        True,
    ]
    assert not any(holds(rule, goes_to_port_in("ports")) for rule in inbound)
    assert port_keys(BOTH) == {}


def test_listed_ports_are_one_set_for_all_rules() -> None:
    listed = replace(BOTH, ports=frozenset({(TCP, 80), (UDP, 53)}))
    table = nat_table(listed)
    assert [each.name for each in table.sets] == ["flows4", "flows6", "ports"]
    for chain, kind in (("prerouting", "nat"), ("output", "nat")):
        assert all(holds(rule, goes_to_port_in("ports")) and rule[-1].name == kind for rule in rules(table, chain))
    assert port_keys(listed) == {"ports": (port_key(TCP, 80), port_key(UDP, 53))}
    assert port_key(UDP, 53) == bytes([17, 0, 0, 0, 0, 53, 0, 0])


def test_each_range_is_a_rule_of_its_own_wherever_a_packet_is_let_in() -> None:
    table = nat_table(replace(BOTH, ranges=frozenset({(UDP, 53, 54), (TCP, 8000, 8100)})))
    assert [each.name for each in table.sets] == ["flows4", "flows6"]
    ranges = [goes_to_port_within(TCP, 8000, 8100), goes_to_port_within(UDP, 53, 54)]
    assert [holds(rule, each) for rule, each in zip(rules(table, "output"), ranges, strict=True)] == [True, True]
    assert [sum(holds(rule, each) for rule in rules(table, "prerouting")) for each in ranges] == [2, 2]
    assert sum(ends_in(rule, snat_to("10.0.2.1")) for rule in rules(table, "postrouting")) == 2


@pytest.mark.parametrize(("first", "inbound"), [(22, 2), (23, 0)], ids=["with ssh", "without ssh"])
def test_a_range_lets_ssh_past_a_sidecar_when_it_holds_it(first: int, inbound: int) -> None:
    table = nat_table(replace(BOTH, meshed=True, ranges=frozenset({(TCP, first, 80)})))
    assert len(rules(table, "prerouting")) == inbound


def test_a_table_of_other_contents_has_another_name() -> None:
    others = [
        BOTH,
        replace(BOTH, ports=frozenset({(TCP, 80)})),
        replace(BOTH, ports=frozenset({(TCP, 81)})),
        replace(BOTH, ports=frozenset({(UDP, 80)})),
        replace(BOTH, ranges=frozenset({(TCP, 80, 81)})),
        replace(BOTH, ranges=frozenset({(TCP, 80, 82)})),
        replace(BOTH, meshed=True),
        replace(BOTH, addresses=(IPV4,)),
        replace(BOTH, addresses=(replace(IPV4, guest="10.0.3.2", gateway="10.0.3.1"),)),
    ]
    assert len({nat_table(each).name for each in others}) == len(others)
    assert nat_table(BOTH) == nat_table(replace(BOTH))


def test_the_fence_does_not_change_with_the_ports() -> None:
    assert fence_table(replace(BOTH, ports=frozenset({(TCP, 80)}))) == fence_table(BOTH)
    assert fence_table(replace(BOTH, guest_mac="52:54:00:00:00:08")).name != fence_table(BOTH).name


def test_a_name_of_a_table_is_short_enough_for_the_kernel_and_tells_whose_it_is() -> None:
    longest = replace(BOTH, names=names_for("pod0123456789a", 3))
    for table in (nat_table(longest), fence_table(longest)):
        assert table.name.startswith("kvedge_masquerade_pod0123456789a_")
        assert len(table.name) < 256


def test_a_guest_of_one_version_is_fenced_off_the_other() -> None:
    alone = fence_table(replace(BOTH, addresses=(IPV4,))).chains[-1].rules
    assert len(alone) < len(fence_table(BOTH).chains[-1].rules)
    # The last word is a refusal, whatever the version.
    assert all(each.chains[-1].rules[-1][-1] == drop(Reason.ADDRESS) for each in (fence_table(BOTH),))


@pytest.mark.parametrize(
    ("ports", "inbound"),
    [(frozenset(), 2), (frozenset({(TCP, 80)}), 0), (frozenset({(TCP, 80), (TCP, 22)}), 2)],
    ids=["nothing listed", "listed without ssh", "listed with ssh"],
)
def test_behind_a_sidecar_ssh_alone_comes_straight(ports: frozenset[tuple[int, int]], inbound: int) -> None:
    table = nat_table(replace(BOTH, meshed=True, ports=ports))
    assert len(rules(table, "prerouting")) == inbound
    assert all(holds(rule, goes_to_port(TCP, 22)) for rule in rules(table, "prerouting"))


def test_the_sidecars_own_ports_are_left_to_it_unless_ports_are_listed() -> None:
    meshed = nat_table(replace(BOTH, meshed=True))
    accepted = [rule for rule in rules(meshed, "output") if rule[-1] == Expression("verdict", {"code": 1})]
    assert len(accepted) == len(SIDECAR_PORTS)
    listed = nat_table(replace(BOTH, meshed=True, ports=frozenset({(TCP, 80)})))
    assert all(rule[-1].name == "nat" for rule in rules(listed, "output"))


def test_a_sidecar_reaches_the_guest_from_its_own_address_too() -> None:
    table = nat_table(replace(BOTH, meshed=True))
    to_guest = [rule for rule in rules(table, "postrouting") if ends_in(rule, snat_to("10.0.2.1"))]
    assert len(to_guest) == 2
    assert len([rule for rule in rules(nat_table(BOTH), "postrouting") if ends_in(rule, snat_to("10.0.2.1"))]) == 1
