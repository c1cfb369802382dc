"""The plans of macvtaps on a NIC of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.network.errors import NetworkError
from kvedge.network.lan.macvtap_config import MacvtapConfig
from kvedge.network.lan.macvtap_plan import (
    HostNics,
    find_replaced,
    macvtap_port,
    macvtap_ports_of,
    plan_macvtap,
    plan_macvtap_inside,
    plan_macvtap_leaving,
)
from kvedge.network.link_types import Link
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.steps import AddMacvtap, DeleteLink, SetLink, SetSysctl
from tests.support.values import replace

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
NETNS = Path("/run/netns/kvedge0-pod")
MAC = "52:54:00:00:00:01"
ETH0 = Link(index=2, name="eth0", kind="", mac="52:54:00:00:00:99", mtu=9000, up=True)
BRIDGE = Link(index=3, name="br0", kind="bridge", mac="52:54:00:00:00:98", mtu=1500, up=True)
HOST = HostNics((ETH0, BRIDGE))
WANTED = macvtap_port("kvedge0-pod", "pod0123456789a", MAC, MacvtapConfig(nic="eth0"))
MADE = Link(index=4, name="pod0123456789a", kind="macvtap", mac=MAC, mtu=9000, up=False, lower=2)
MARKED = replace(MADE, alias=WANTED.mark.alias)


def test_a_link_is_made_in_the_pod_and_marked_there() -> None:
    assert plan_macvtap(CONFIG, HOST, [], WANTED, NETNS) == [
        AddMacvtap("pod0123456789a", "eth0", NETNS, mode="bridge", mac=MAC, mtu=9000)
    ]
    assert plan_macvtap_inside([MADE], WANTED, ipv6=True) == [
        SetSysctl("ipv6/conf/pod0123456789a/disable_ipv6", "1"),
        SetLink("pod0123456789a", alias="kvedge macvtap eth0 bridge -"),
    ]
    assert SetSysctl not in map(type, plan_macvtap_inside([MADE], WANTED, ipv6=False))


def test_it_stays_down_until_its_guest_is_in_bounds() -> None:
    steps = plan_macvtap_inside([MADE], WANTED, ipv6=True)
    assert not [step for step in steps if isinstance(step, SetLink) and step.up]


def test_one_that_is_there_stays_as_it_is() -> None:
    assert plan_macvtap(CONFIG, HostNics(()), [MARKED], WANTED, NETNS) == []
    assert plan_macvtap_inside([MARKED], WANTED, ipv6=True) == []
    assert macvtap_ports_of("kvedge0-pod", [ETH0, MADE, MARKED]) == [WANTED]


def test_a_pod_leaves_ours_alone_and_those_that_it_keeps() -> None:
    foreign = replace(MADE, name="net1", alias="somebody's")
    assert plan_macvtap_leaving([MARKED, foreign, ETH0], ()) == [DeleteLink("pod0123456789a")]
    assert plan_macvtap_leaving([MARKED], {"pod0123456789a"}) == []


def test_a_network_has_its_own_mtu_and_mode() -> None:
    wanted = replace(WANTED, network=MacvtapConfig(nic="eth0", mode="private", mtu=1400, servers=True))
    (step,) = plan_macvtap(CONFIG, HOST, [], wanted, NETNS)
    assert isinstance(step, AddMacvtap)
    assert (step.mode, step.mtu) == ("private", 1400)
    assert wanted.mark.alias == "kvedge macvtap eth0 private s"


@pytest.mark.parametrize(
    ("host", "nic", "said"),
    [
        (HOST, "eth1", "there is no NIC eth1"),
        (replace(HOST, wireless=frozenset({"eth0"})), "eth0", "an access point takes no frames of others"),
        (HostNics((replace(ETH0, master=3), BRIDGE)), "eth0", "it is a part of br0, which has its frames; name br0"),
        (HostNics((replace(ETH0, name="kvedge0", kind="bridge"),)), "kvedge0", "it is the Pod network's own"),
        (HostNics((replace(BRIDGE, alias="kvedge ip_forward=0"),)), "br0", "it is the Pod network's own"),
        (HostNics((replace(BRIDGE, alias="kvedge lan-bridge kvedge1"),)), "br0", "kvedge made it for a network of its"),
        (HostNics((replace(ETH0, kind="wireguard", mac=""),)), "eth0", "it is wireguard"),
        (HostNics((replace(ETH0, mtu=1400),)), "eth0", "its MTU is 1400, and 1500 is wanted"),
    ],
    ids=["not there", "wifi", "a port", "our own", "another kvedge's own", "a LAN's own", "no ethernet", "too small"],
)
def test_a_nic_that_guests_cannot_be_on_is_refused_with_what_to_do(host: HostNics, nic: str, said: str) -> None:
    wanted = replace(WANTED, network=MacvtapConfig(nic=nic, mtu=1500))
    with pytest.raises(NetworkError, match=said):
        plan_macvtap(CONFIG, host, [], wanted, NETNS)


def test_one_of_an_earlier_configuration_is_replaced_and_one_of_somebody_elses_is_not() -> None:
    for network in (MacvtapConfig(nic="br0"), MacvtapConfig(nic="eth0", mode="private")):
        wanted = replace(WANTED, network=network)
        assert find_replaced([ETH0, MARKED], wanted) == [MARKED.name]
        (step,) = plan_macvtap(CONFIG, HOST, [MARKED], wanted, NETNS)
        assert isinstance(step, AddMacvtap)
        assert (step.mode, step.mtu) == (network.mode, 9000 if network.nic == "eth0" else 1500)
    assert find_replaced([MARKED], WANTED) == []
    assert find_replaced([MADE, replace(MARKED, name="net1")], replace(WANTED, network=MacvtapConfig(nic="br0"))) == []
