"""On which links of a node no guest is put."""

from __future__ import annotations

import pytest

from kvedge.network.lan.pods_links import find_pods_reason
from kvedge.network.link_types import Link
from tests.support.values import replace


def link(index: int, name: str, kind: str = "veth", **more: int) -> Link:
    return Link(index=index, name=name, kind=kind, mac="02:00:00:00:00:01", mtu=1500, up=True, **more)


OWN = link(2, "eth0", peer_index=7)
ETH0, CNI0, BR0 = link(2, "eth0", ""), link(3, "cni0", "bridge"), link(4, "br0", "bridge")
ON_BRIDGE = [ETH0, CNI0, BR0, link(7, "veth1234", peer_index=2, master=3)]
ROUTED = [ETH0, BR0, link(7, "cali1234", peer_index=2), link(8, "cali5678", peer_index=2)]
# A node that is a container; a pair of the operator's.
NESTED = [
    link(2, "eth0", peer_index=40),
    link(7, "veth1234", peer_index=2),
    link(9, "vethlan", peer_index=10),
    link(10, "vethlan2", peer_index=9),
]


@pytest.mark.parametrize(
    ("host", "name", "said"),
    [
        (ON_BRIDGE, "cni0", "the Pods of this node are on it"),
        (ROUTED, "cali1234", "it leads to a Pod of this node"),
        (ROUTED, "cali5678", "it leads to a Pod of this node"),
        (ON_BRIDGE, "br0", ""),
        (ON_BRIDGE, "eth0", ""),
        (ROUTED, "eth0", ""),
        (NESTED, "eth0", ""),
        (NESTED, "vethlan", ""),
        (NESTED, "gone", ""),
    ],
    ids=[
        "the Pods' bridge",
        "its own Pod",
        "another Pod",
        "another bridge",
        "the node's NIC",
        "a NIC beside routed Pods",
        "a container's NIC",
        "an operator's pair",
        "not there",
    ],
)
def test_a_link_to_the_pods_is_known_by_its_place_and_its_name(host: list[Link], name: str, said: str) -> None:
    assert find_pods_reason([OWN], host, name) == said


def test_a_pods_nic_that_is_bound_is_known_by_its_other_name() -> None:
    stand_in = link(5, "eth0", "dummy")
    assert find_pods_reason([stand_in, replace(OWN, name="eth0-nic")], ON_BRIDGE, "cni0") != ""
    assert find_pods_reason([stand_in], ON_BRIDGE, "cni0") == "", "a Pod without a pair tells nothing"
