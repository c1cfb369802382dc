# Tests: kvedge/network/insight/way_reader.py
"""The way of a guest's packets, link by link, and which counter is which direction."""

from __future__ import annotations

from typing import Any

from kvedge.network.binding.binding_state import names_for
from kvedge.network.drop_rules import Dropped
from kvedge.network.insight import way_reader
from kvedge.network.insight.packet_way import Hop, way_in_pod, way_on_node
from kvedge.network.link_types import CountedLink, Link, Traffic

NAMES = names_for("eth0", 0)
IN, OUT = Traffic(1, 10, 2), Traffic(3, 30, 0, 4)


def counted(index: int, name: str, kind: str, **more: Any) -> CountedLink:
    return CountedLink(Link(index=index, name=name, kind=kind, mac="", mtu=1500, up=True, **more), IN, OUT)


TAP = counted(4, "tap0", "tun", master=3)
BRIDGE = counted(3, "k6t-eth0", "bridge")
NIC = counted(2, "eth0-nic", "veth", master=3, peer_index=9)
STAND_IN = counted(5, "eth0", "dummy")
IN_POD = [counted(1, "lo", ""), NIC, BRIDGE, TAP, STAND_IN]
END = counted(9, "v1", "veth", master=7)
LAN = counted(7, "br0", "bridge")
UPLINK = counted(6, "eno1", "", master=7)
ON_NODE = {each.link.index: each for each in (END, LAN, UPLINK, counted(8, "v2", "veth", master=7))}


def shape(hops: list[Hop]) -> list[tuple[str, str, Traffic | None, Traffic | None]]:
    return [(hop.where, hop.link.name, hop.from_guest, hop.to_guest) for hop in hops]


def test_the_tap_receives_what_the_guest_sends_and_the_nic_sends_it_on() -> None:
    assert shape(way_in_pod(NAMES, IN_POD)) == [
        ("pod", "tap0", IN, OUT),
        ("pod", "k6t-eth0", None, None),
        ("pod", "eth0-nic", OUT, IN),
    ]


def test_a_translated_nic_keeps_its_name() -> None:
    own = counted(2, "eth0", "veth", peer_index=9)
    assert [hop.link.name for hop in way_in_pod(NAMES, [TAP, BRIDGE, own])] == ["tap0", "k6t-eth0", "eth0"]


def test_links_that_are_not_there_are_left_out() -> None:
    assert way_in_pod(NAMES, []) == []
    assert way_on_node(None, ON_NODE) == []


def test_on_the_node_the_way_ends_at_the_uplink_and_passes_other_guests_by() -> None:
    assert shape(way_on_node(NIC.link, ON_NODE)) == [
        ("node", "v1", IN, OUT),
        ("node", "br0", None, None),
        ("node", "eno1", OUT, IN),
    ]


def test_a_nic_whose_other_end_is_no_veth_of_the_node_leads_nowhere_that_is_known() -> None:
    assert way_on_node(NIC.link, {9: counted(9, "eno2", "")}) == []
    assert way_on_node(counted(2, "eth0", "macvlan", peer_index=9).link, ON_NODE) == []


def test_a_veth_on_no_bridge_is_the_end() -> None:
    assert shape(way_on_node(NIC.link, {9: counted(9, "v1", "veth")})) == [("node", "v1", IN, OUT)]


def test_a_hop_is_a_document() -> None:
    assert Hop("node", UPLINK.link, from_guest=OUT).document() == {
        "where": "node",
        "name": "eno1",
        "kind": "physical",
        "up": True,
        "carrier": False,
        "mtu": 1500,
        "fromGuest": {"packets": 3, "bytes": 30, "dropped": 0, "errors": 4},
    }
    assert "toGuest" not in Hop("pod", BRIDGE.link).document()


def test_what_was_lost_and_what_was_filtered_is_told() -> None:
    lost = Traffic(1, 10, missed=4, queue_dropped=5)
    shown = Hop("node", UPLINK.link, to_guest=lost, filtered={"from another's MAC": Dropped(3, 180)}).document()
    assert shown["toGuest"] == {"packets": 1, "bytes": 10, "dropped": 0, "errors": 0, "missed": 4, "queueDropped": 5}
    assert shown["filtered"] == [{"what": "from another's MAC", "packets": 3, "bytes": 180}]


def test_both_namespaces_are_read_once_for_all_interfaces(monkeypatch: Any) -> None:
    reads: list[str] = []

    def on_node() -> list[CountedLink]:
        reads.append("node")
        return list(ON_NODE.values())

    spoofed, denied = {"from another's MAC": Dropped(3, 180)}, {"NetworkPolicies, egress": Dropped(1, 60)}
    in_pod = (IN_POD, {"tap0": spoofed})
    monkeypatch.setattr(way_reader, "run_in_netns", lambda netns, work: reads.append("pod") or in_pod)
    monkeypatch.setattr(way_reader, "_count_links", on_node)
    monkeypatch.setattr(way_reader, "_drops", lambda: {"v1": spoofed, "v2": spoofed})
    monkeypatch.setattr(way_reader, "_read_denied", lambda: {"10.99.0.7": denied, "10.99.0.8": spoofed})
    ways = way_reader.read_ways(7, {"eth0": 0, "pod0123456789a": 1}, {"eth0": ["10.99.0.7"]})
    filtered = {hop.link.name: dict(hop.filtered) for hop in ways["eth0"] if hop.filtered}
    assert filtered == {
        "tap0": spoofed,
        "v1": spoofed,
        "br0": {"NetworkPolicies, egress, 10.99.0.7": Dropped(1, 60)},
    }
    assert [hop.link.name for hop in ways["eth0"]] == ["tap0", "k6t-eth0", "eth0-nic", "v1", "br0", "eno1"]
    assert ways["pod0123456789a"] == []
    assert reads == ["pod", "node"]


def test_a_macvtap_is_its_pods_nic_and_leads_to_the_nodes() -> None:
    link = counted(2, "eth0", "macvtap", lower=6)
    assert shape(way_in_pod(NAMES, [link])) == [("pod", "eth0", OUT, IN)]
    assert shape(way_on_node(link.link, ON_NODE)) == [("node", "eno1", OUT, IN)]
    assert way_on_node(link.link, {}) == []
