# Tests: kvedge/network/nics/nic_steps.py
"""In which order a NIC's addresses go to its bridge, and back."""

from __future__ import annotations

import pytest

from kvedge.network.link_types import Link
from kvedge.network.nics.nic_plan import NicLinks, is_bridge_of, is_over, nic_alias, plan_back, plan_over
from kvedge.network.nics.nic_rules import Carried
from kvedge.network.nics.nic_state import KeptAddress, KeptRoute, NicRecord
from kvedge.network.nics.nic_steps import GiveAddress, LeadRoute, ReleasePort, TakeAddress
from kvedge.network.steps import AddBridge, DeleteLink, SetLink, SetSysctl

MAC = "52:54:00:00:00:01"
FIRST, SECOND = KeptAddress("192.0.2.2", 24), KeptAddress("192.0.2.3", 24)
THIRD = KeptAddress("192.0.2.4", 24)
ROUTE = KeptRoute("0.0.0.0/0", "192.0.2.1", metric=100)
OTHER = KeptRoute("0.0.0.0/0", "192.0.2.9", metric=600)
RECORD = NicRecord(
    nic="eth0",
    bridge="kvb-eth0",
    mac=MAC,
    mtu=1450,
    boot="b",
    addresses=(FIRST, SECOND),
    routes=(ROUTE,),
    settings={"ipv4/rp_filter": "1", "ipv6/disable_ipv6": "0"},
)
NIC = Link(index=2, name="eth0", kind="", mac=MAC, mtu=1450, up=True)
BRIDGE = Link(index=9, name="kvb-eth0", kind="bridge", mac=MAC, mtu=1450, up=True, alias=nic_alias("eth0"))
PORT = Link(index=2, name="eth0", kind="", mac=MAC, mtu=1450, up=True, master=9)


def test_the_bridge_answers_before_the_nic_is_its_port_and_routes_follow_at_once() -> None:
    assert list(plan_over(RECORD, NicLinks(NIC, None))) == [
        AddBridge("kvb-eth0", MAC, 1450),
        SetLink("kvb-eth0", alias=nic_alias("eth0")),
        SetSysctl("ipv4/conf/kvb-eth0/rp_filter", "1"),
        SetLink("kvb-eth0", up=True),
        GiveAddress("kvb-eth0", FIRST),
        GiveAddress("kvb-eth0", SECOND),
        SetLink("eth0", master="kvb-eth0"),
        LeadRoute("kvb-eth0", ROUTE),
        TakeAddress("eth0", SECOND),
        TakeAddress("eth0", FIRST),
        SetSysctl("ipv6/conf/eth0/disable_ipv6", "1"),
    ]


def test_the_nic_has_everything_before_it_leaves_the_bridge() -> None:
    assert list(plan_back(RECORD, NicLinks(PORT, BRIDGE))) == [
        SetSysctl("ipv6/conf/eth0/disable_ipv6", "0"),
        GiveAddress("eth0", FIRST),
        GiveAddress("eth0", SECOND),
        LeadRoute("eth0", ROUTE),
        ReleasePort("eth0"),
        DeleteLink("kvb-eth0"),
    ]


def test_guests_keep_their_bridge_while_the_host_is_on_the_nic() -> None:
    assert list(plan_back(RECORD, NicLinks(PORT, BRIDGE, ("guest",)), keeps_bridge=True))[-3:] == [
        ReleasePort("eth0"),
        TakeAddress("kvb-eth0", SECOND),
        TakeAddress("kvb-eth0", FIRST),
    ]


@pytest.mark.parametrize(
    ("bridge", "nic", "over"),
    [
        (Carried((FIRST, SECOND), (ROUTE,)), (), True),
        (Carried((SECOND, THIRD, FIRST), (ROUTE, OTHER)), (THIRD,), True),
        (Carried((FIRST,), (ROUTE,)), (), False),
        (Carried((FIRST, SECOND), (OTHER,)), (), False),
        (Carried((FIRST, SECOND), (ROUTE,)), (SECOND,), False),
        (Carried(), (FIRST, SECOND), False),
    ],
    ids=["over", "with more", "an address lacks", "a route lacks", "one is on the NIC too", "none is over"],
)
def test_a_move_is_over_when_the_bridge_has_everything_and_the_nic_has_nothing(
    bridge: Carried, nic: tuple[KeptAddress, ...], over: bool
) -> None:
    assert is_over(RECORD, bridge, nic) is over


def test_a_nic_that_never_was_a_port_is_not_released() -> None:
    assert ReleasePort("eth0") not in list(plan_back(RECORD, NicLinks(NIC, BRIDGE)))


def test_a_nic_that_is_gone_leaves_its_bridge_to_be_removed() -> None:
    assert list(plan_back(RECORD, NicLinks(None, BRIDGE))) == [DeleteLink("kvb-eth0")]


def test_somebody_else_s_bridge_is_left() -> None:
    theirs = Link(index=9, name="kvb-eth0", kind="bridge", mac=MAC, mtu=1450, up=True, alias="uplink")
    assert DeleteLink("kvb-eth0") not in list(plan_back(RECORD, NicLinks(NIC, theirs)))
    assert not is_bridge_of(RECORD, theirs)


def test_a_bridge_that_was_cut_short_before_its_alias_is_ours() -> None:
    assert is_bridge_of(RECORD, Link(index=9, name="kvb-eth0", kind="bridge", mac=MAC, mtu=1450, up=False))
