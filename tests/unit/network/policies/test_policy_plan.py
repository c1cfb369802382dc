# Tests: kvedge/network/policies/policy_rules.py, kvedge/network/policies/policy_bridge_rules.py
"""What is put into the tables of policies, and that changes lead to the same as a new start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvedge.network.nft.nft_port_rules import port_address_key
from kvedge.network.nft.nft_rules import address_key, link_key
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import NodeNetworkConfig, policy_table_name
from kvedge.network.policies.address_ranges import number_of
from kvedge.network.policies.policy_bridge_rules import FREE_HOSTS, FREE_HOSTS_OF_IPV6, FREE_PORTS, ISOLATED
from kvedge.network.policies.policy_plan import Enforced, plan_change, plan_enforcing, policy_tables
from kvedge.network.policies.policy_rules import FREE_IN, PASSAGES, PEERS, Elements, Passage, PodTraffic
from kvedge.network.steps import ChangeTables
from tests.support.values import replace
from tests.unit.network.policies.kernel_model import KernelModel

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
TABLES = policy_tables(CONFIG)
TABLES_OF_BOTH = policy_tables(replace(CONFIG, ipv6_cidr="fd00::/64"))
ONE, OTHER = ((1, 5),), ((3, 3), (9, 9), (number_of("fd00::1"), number_of("fd00::7")))
WEB = (Passage(6, 80, 80, ONE), Passage(6, 81, 90, OTHER))


def pod(number: int, **traffic: tuple[Passage, ...]) -> PodTraffic:
    return PodTraffic(f"10.99.0.{number}", f"port{number}", **traffic)


def test_tables_are_called_after_the_node_network() -> None:
    assert {table.name for table in TABLES} == {policy_table_name("kvedge0")}


def test_pods_with_the_same_traffic_share_what_is_in_the_maps() -> None:
    found = plan_enforcing([pod(2, ingress=WEB), pod(3, ingress=WEB), pod(4)], {})
    assert [len(found.contents[0][name.name]) for name in (PASSAGES, PEERS)] == [2, 3]


def test_the_bridge_tells_pods_that_are_free_from_others() -> None:
    found = plan_enforcing([pod(2, ingress=WEB), pod(3, egress=()), pod(4)], {}).contents[1]
    assert found[FREE_PORTS.name] == {link_key("port4")}
    assert found[FREE_HOSTS.name] == {bytes([10, 99, 0, 4])}
    assert found[ISOLATED.name] == {port_address_key(f"port{each}", f"10.99.0.{each}") for each in (2, 3)}


def test_a_pod_that_nobody_has_told_of_reaches_nothing_and_is_not_reached() -> None:
    model = KernelModel(plan_enforcing([pod(4)], {}))
    assert model.passes("10.99.0.4", "192.0.2.1", 6, 80, reaches=False)
    assert not model.passes("10.99.0.5", "192.0.2.1", 6, 80, reaches=False)
    assert not model.passes("10.99.0.4", "10.99.0.5", 6, 80)
    assert not model.passes("192.0.2.1", "10.99.0.5", 6, 80, leaves=False)


def test_a_pod_reaches_itself_by_a_service_whatever_its_policies_say() -> None:
    assert KernelModel(plan_enforcing([pod(4, ingress=(), egress=())], {})).passes("10.99.0.4", "10.99.0.4", 6, 80)


def test_where_pods_have_ipv6_it_is_filtered_too_and_changes_with_the_rest() -> None:
    tables = policy_tables(replace(CONFIG, ipv6_cidr="fd00::/64"))
    assert [table.family for table in tables] == [Family.IP, Family.BRIDGE, Family.IP6]
    one = PodTraffic("10.99.0.2", "port2", ipv6_address="fd00::2")
    before = plan_enforcing([one], {}, ipv6=True)
    for table, contents in zip(tables, before.contents, strict=True):
        # Those that have a size are filled by rules.
        assert {each.name for each in table.sets if not each.most} == set(contents)
    step = plan_change(tables, before, plan_enforcing([replace(one, ingress=())], before.numbers, ipv6=True))
    assert step is not None
    removed = {table.family: dict(remove) for table, _, remove in step.changes}
    assert removed[Family.IP6] == {FREE_IN.name: (address_key("fd00::2"),)}
    assert removed[Family.BRIDGE][FREE_HOSTS_OF_IPV6.name] == (address_key("fd00::2"),)


def test_a_link_local_source_is_no_pods() -> None:
    pods = [PodTraffic(f"10.99.0.{number}", f"port{number}", ipv6_address=f"fd00::{number}") for number in (2, 3)]
    model = KernelModel(plan_enforcing(pods, {}, ipv6=True))
    assert model.passes("fd00::2", "fd00::3", 6, 80)
    assert not model.passes("fe80::2", "fd00::3", 6, 80)


def test_nothing_is_changed_where_nothing_differs() -> None:
    before = plan_enforcing([pod(2, ingress=WEB)], {})
    assert plan_change(TABLES, before, plan_enforcing([pod(2, ingress=WEB)], before.numbers)) is None


PASSAGE_LISTS = st.lists(
    st.builds(
        lambda protocol, first, peers: Passage(protocol, first, first, peers),
        st.sampled_from([6, 17]),
        st.integers(80, 83),
        st.sampled_from([ONE, OTHER, ((7, 8),)]),
    ),
    max_size=3,
    unique_by=lambda each: (each.protocol, each.first),
).map(lambda each: tuple(sorted(each)))
STATES = st.lists(st.tuples(st.none() | PASSAGE_LISTS, st.none() | PASSAGE_LISTS), max_size=4)


def traffic(state: list[tuple[tuple[Passage, ...] | None, tuple[Passage, ...] | None]]) -> list[PodTraffic]:
    return [PodTraffic(f"10.99.0.{at}", f"port{at}", *each, f"fd00::{at}") for at, each in enumerate(state, start=2)]


def applied(step: ChangeTables | None, tables: tuple[Elements, ...]) -> tuple[Elements, ...]:
    """The contents after the step; a range that overlaps another one is not accepted by the kernel at any time."""
    found = [dict(each) for each in tables]
    for table, add, remove in step.changes if step is not None else ():
        contents = found[TABLES_OF_BOTH.index(table)]
        for name in {*add, *remove}:
            contents[name] = contents[name] - set(remove.get(name, ()))
            assert not contents[name] & set(add.get(name, ()))
            contents[name] |= set(add.get(name, ()))
    return tuple(found)


@given(st.lists(STATES, min_size=1, max_size=5))
def test_any_order_of_changes_leads_to_what_is_wanted(states: list[list[object]]) -> None:
    present: Enforced | None = None
    for state in states:
        wanted = plan_enforcing(traffic(state), present.numbers if present is not None else {}, ipv6=True)  # type: ignore[arg-type]
        if present is not None:
            step = plan_change(TABLES_OF_BOTH, present, wanted)
            assert applied(step, present.contents) == wanted.contents
            # What a number stands for never changes.
            for content, number in wanted.numbers.items():
                assert present.numbers.get(content, number) == number
                assert content in present.numbers or number not in present.numbers.values()
        present = wanted
