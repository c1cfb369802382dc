"""When a host forwards IPv6, and that it stays a host on its own links."""

from __future__ import annotations

import pytest

from kvedge.network.link_types import Link
from kvedge.network.nft.nft_tables import Family
from kvedge.network.node_seen import Ipv6Seen, LinkIpv6, NodeSeen
from kvedge.network.pods.forward_rules import FENCE, fence_table
from kvedge.network.pods.ipv6_forwarding_plan import (
    FORWARDING,
    fence_steps,
    note,
    plan_forwarding,
    plan_forwarding_back,
)
from kvedge.network.steps import ChangeElements, DeleteTable, ReplaceTable, SetSysctl
from tests.support.values import replace


def bridge(name: str, alias: str = "kvedge ip_forward=0 ipv6_forwarding=0") -> Link:
    return Link(index=9, name=name, kind="bridge", mac="", mtu=1500, up=True, alias=alias)


def host(*links: Link, **of_ipv6: object) -> NodeSeen:
    seen = Ipv6Seen(forwarding="0", links={"eno1": LinkIpv6("1", "0"), "default": LinkIpv6("1", "0")})
    changed = replace(seen, **of_ipv6)  # type: ignore[arg-type]
    return NodeSeen(links, (), (), "0", ipv6=True, of_ipv6=changed)


def settings(steps: object) -> list[tuple[str, str]]:
    return [(each.name.removeprefix("ipv6/conf/"), each.value) for each in steps if isinstance(each, SetSysctl)]  # type: ignore[attr-defined]


def test_links_believe_their_routers_during_the_switch_and_are_hosts_after_it() -> None:
    links = {"eno1": LinkIpv6("1", "0"), "eno2": LinkIpv6("0", "0"), "wg0": LinkIpv6("2", "1")}
    assert settings(plan_forwarding("kvedge0", host(links=links))) == [
        ("eno1/accept_ra", "2"),
        ("all/forwarding", "1"),
        ("kvedge0/forwarding", "1"),
        ("eno1/forwarding", "0"),
        ("eno2/forwarding", "0"),
        ("eno1/accept_ra", "1"),
    ]


def test_a_host_that_forwards_is_not_touched() -> None:
    links = {"eno1": LinkIpv6("1", "0"), "kvedge0": LinkIpv6("0", "1")}
    assert list(plan_forwarding("kvedge0", host(forwarding="1", links=links))) == []
    # The bridge of a box that comes there is a router, and nothing is lost by that.
    assert settings(plan_forwarding("kvedge0", host(forwarding="1", links={"eno1": LinkIpv6("1", "0")}))) == [
        ("eno1/accept_ra", "2"),
        ("kvedge0/forwarding", "1"),
        ("eno1/accept_ra", "1"),
    ]


def test_what_links_were_by_themselves_they_are_again_afterwards() -> None:
    seen = host(
        bridge("kvedge0"),
        forwarding="1",
        fenced=True,
        links={"eno1": LinkIpv6("1", "0"), "wg0": LinkIpv6("2", "1"), "kvedge0": LinkIpv6("0", "1")},
    )
    steps = list(plan_forwarding_back("kvedge0", seen, "0"))
    assert settings(steps) == [
        ("eno1/accept_ra", "2"),
        ("all/forwarding", "0"),
        ("wg0/forwarding", "1"),
        ("eno1/accept_ra", "1"),
    ]
    assert steps[-1] == DeleteTable(Family.IP6, FENCE)


@pytest.mark.parametrize(
    ("before", "of_ipv6", "others"),
    [
        pytest.param("1", {}, (), id="it forwarded before"),
        pytest.param(None, {}, (), id="nobody knows what it did"),
        pytest.param("0", {"foreign_nat": ("ip6/docker",)}, (), id="somebody else needs it by now"),
        pytest.param("0", {}, (bridge("kve-2"),), id="another instance is there"),
    ],
)
def test_forwarding_stays_on(before: str | None, of_ipv6: dict[str, object], others: tuple[Link, ...]) -> None:
    seen = host(bridge("kvedge0"), *others, forwarding="1", **of_ipv6)
    assert SetSysctl(FORWARDING, "0") not in list(plan_forwarding_back("kvedge0", seen, before))


def test_the_setting_of_before_is_written_down_once_by_whoever_came_first() -> None:
    assert note("kvedge0", host()) == "ipv6_forwarding=0"
    assert note("kvedge0", host(forwarding="1")) == "ipv6_forwarding=1"
    assert note("kvedge0", host(bridge("kvedge0"), forwarding="1")) == "ipv6_forwarding=0"
    assert note("kvedge0", host(bridge("kve-2"), forwarding="1")) == "ipv6_forwarding=0"
    # The bridge is gone, and only the fence tells that this host did not forward.
    assert note("kvedge0", host(forwarding="1", fenced=True)) == "ipv6_forwarding=0"


def test_between_links_of_others_there_is_a_fence_only_where_we_switched_it_on() -> None:
    table = fence_table(Family.IP6)
    (made,) = fence_steps("kvedge0", host(), ())
    assert isinstance(made, ReplaceTable)
    assert made.table == table
    (kept,) = fence_steps("kvedge0", host(), (table,))
    assert isinstance(kept, ChangeElements)
    assert list(fence_steps("kvedge0", host(forwarding="1"), ())) == []
    lifted = host(bridge("kvedge0"), forwarding="1", fenced=True, foreign_nat=("ip6/docker",))
    assert list(fence_steps("kvedge0", lifted, (table,))) == [DeleteTable(Family.IP6, FENCE)]
