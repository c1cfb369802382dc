# Tests: kvedge/network/insight/cut_off.py, kvedge/network/insight/cut_off_reader.py
"""Whether a guest's NIC leads to its network: what is said when it does not, and when nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.network.insight import cut_off_reader
from kvedge.network.insight.cut_off import NicSeen, judge_nic
from kvedge.network.insight.cut_off_reader import NodeLinks, ends_of
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.lan.lan_plan import lan_port
from kvedge.network.link_types import Link
from tests.support.clocks import FakeClock
from tests.support.values import replace

LAN = LanConfig(bridge="br0")
ALIAS = lan_port("kvedge0-pod", "pod0123456789a", "52:54:00:00:00:01", LAN).alias
OF_VLAN = lan_port("kvedge0-pod", "pod0123456789a", "52:54:00:00:00:01", LanConfig(bridge="br0", vlan=7)).alias
MADE = lan_port("kvedge0-pod", "pod0123456789a", "52:54:00:00:00:01", LanConfig(bridge="kvn-1", made=True)).alias


def link(index: int, name: str, kind: str, **more: Any) -> Link:
    return Link(index=index, name=name, kind=kind, mac="", mtu=1500, **{"up": True, **more})


BRIDGE = link(7, "br0", "bridge", vlan_filtering=True)
END = link(9, "w1", "veth", master=7, peer_index=2, alias=ALIAS)
UPLINK = link(6, "eno1", "", master=7, carrier=True)
OTHER_GUEST = link(8, "w2", "veth", master=7)
NOTHING = NicSeen()
WELL = (BRIDGE, END, UPLINK, OTHER_GUEST)
BEFORE = NicSeen("br0", ("eno1",))
BY_CNI = replace(END, alias="")


def look(*links: Link, before: NicSeen = NOTHING) -> NicSeen:
    return judge_nic(9, before, {each.index: each for each in links})


@pytest.mark.parametrize("end", [END, BY_CNI], ids=["one box", "a CNI plugin"])
def test_a_nic_on_a_bridge_with_an_uplink_is_well(end: Link) -> None:
    assert look(BRIDGE, end, UPLINK, OTHER_GUEST) == BEFORE


def test_a_bridge_without_an_uplink_is_a_network_of_guests_among_themselves() -> None:
    assert look(BRIDGE, END, OTHER_GUEST) == NicSeen("br0")


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ((END, UPLINK), "there is no bridge br0 on the node; make it again: the guest is put back on it"),
        ((BY_CNI, UPLINK), "there is no bridge br0 on the node; make it again: restart the VM"),
        ((replace(END, master=0), BRIDGE, UPLINK), "its link w1 is not on bridge br0; the guest is put back on it"),
        ((replace(BY_CNI, master=0), BRIDGE, UPLINK), "its link w1 is not on bridge br0; restart the VM"),
        ((replace(BRIDGE, up=False), END, UPLINK), "bridge br0 is down; `ip link set br0 up`"),
        ((BRIDGE, END, replace(UPLINK, carrier=False)), "no uplink of bridge br0 has a carrier (eno1); look at"),
        ((BRIDGE, END, replace(UPLINK, master=0)), "has lost its uplink eno1; `ip link set eno1 master br0`"),
        ((BRIDGE, UPLINK), "its link to the node's bridge br0 is gone; restart the VM"),
        ((link(7, "br0", "dummy"), END), "it is dummy and no bridge"),
        ((replace(BRIDGE, vlan_filtering=False), replace(END, alias=OF_VLAN)), "and VLAN 7 is wanted"),
    ],
    ids=[
        "no bridge", "no bridge of a CNI's", "off its bridge", "off a CNI's bridge", "down", "no carrier",
        "no uplink", "no end", "no more a bridge", "no VLANs",
    ],
)  # fmt: skip
def test_what_cuts_a_guest_off_is_said_with_its_remedy(links: tuple[Link, ...], said: str) -> None:
    found = look(*links, before=replace(BEFORE, is_silent=True))
    assert said in found.trouble
    assert (found.bridge, found.uplinks) == ("br0", ("eno1",)), "it is known what to wait for"
    assert look(*WELL, before=found) == BEFORE, "it goes away by itself"


def test_a_bridge_that_kvedge_makes_is_made_again_by_it() -> None:
    found = look(replace(END, alias=MADE))
    assert found.trouble == "there is no bridge kvn-1 on the node; the guest is put back on it within the minute"


@pytest.mark.parametrize(
    "links", [(), (link(9, "v1", "veth"),), (link(9, "eno9", ""),)], ids=["no link", "a routed pair", "no veth"]
)
def test_of_what_never_was_on_a_bridge_nothing_is_said(links: tuple[Link, ...]) -> None:
    assert replace(look(*links), is_gone=False) == NicSeen()


def test_a_carrier_is_missed_when_two_looks_in_a_row_have_seen_none() -> None:
    links = (BRIDGE, END, replace(UPLINK, carrier=False))
    first = look(*links, before=BEFORE)
    assert (first.trouble, first.is_silent) == ("", True)
    assert "has a carrier" in look(*links, before=first).trouble
    assert look(*WELL, before=first) == BEFORE


def test_an_end_that_is_gone_is_told_apart_from_one_elsewhere() -> None:
    assert look(BRIDGE, UPLINK, before=BEFORE).is_gone
    assert not look(BRIDGE, replace(END, master=0), before=BEFORE).is_gone


@pytest.mark.parametrize("kind", ["openvswitch", "vrf"])
def test_of_a_switch_that_is_no_bridge_nothing_is_said(kind: str) -> None:
    assert look(link(7, "ovs-system", kind, up=False), BY_CNI) == NicSeen()


def test_the_nodes_links_are_listed_once_for_all_guests_of_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[tuple[Link, ...]] = []

    def listed() -> list[Link]:
        lists.append(WELL)
        return list(WELL)

    monkeypatch.setattr(cut_off_reader, "_list_links", listed)
    clock = FakeClock()
    links = NodeLinks(clock.monotonic)
    assert links.judge({}, {}) == {}
    assert [links.judge({"pod1": 9}, {}) for _ in range(3)] == [{"pod1": BEFORE}] * 3
    assert len(lists) == 1
    clock.seconds += 5
    links.judge({"pod1": 9}, {})
    assert len(lists) == 2


def test_the_ends_of_nics_are_found_by_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    in_pod = [
        link(2, "0123456789a-nic", "veth", peer_index=9),
        link(3, "pod0123456789a", "dummy"),
        link(4, "podb", "macvlan", peer_index=12),
        link(5, "podc", "veth", peer_index=13),
    ]
    monkeypatch.setattr(cut_off_reader, "run_in_netns", lambda netns, work: in_pod)
    assert ends_of(7, {"pod0123456789a": 1, "podb": 2, "podc": 3, "podd": 4}) == {"pod0123456789a": 9, "podc": 13}
