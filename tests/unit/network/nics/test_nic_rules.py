"""Which NICs cannot become a port of a bridge, and what their owner is told to do."""

from __future__ import annotations

import pytest

from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Link
from kvedge.network.nics.nic_rules import Carried, NicHardware, NicManager, check_nic
from tests.support.values import replace

NIC = Link(index=2, name="eth0", kind="", mac="52:54:00:00:00:01", mtu=1500, up=True)
WIRED = NicHardware(is_ethernet=True, is_wireless=False)
OTHER = Link(index=3, name="br0", kind="bridge", mac="52:54:00:00:00:02", mtu=1500, up=True)


def trouble(
    *links: Link,
    carried: Carried | None = None,
    hardware: NicHardware = WIRED,
    manager: NicManager | None = None,
    name: str = "eth0",
) -> str:
    with pytest.raises(NetworkError) as told:
        check_nic(name, "kvb-eth0", links, carried or Carried(), hardware, manager)
    return str(told.value)


def test_a_wired_nic_that_nobody_manages_can_be_moved() -> None:
    vlan = Link(index=4, name="eth0.7", kind="vlan", mac=NIC.mac, mtu=1500, up=True, lower=NIC.index)
    check_nic("eth0", "kvb-eth0", [NIC, OTHER, vlan], Carried(), WIRED, None)


@pytest.mark.parametrize(
    ("nic", "said"),
    [
        (replace(NIC, kind="bridge"), "it is a bridge already; name it with --bridge eth0"),
        (replace(NIC, kind="wireguard"), "it is wireguard; name a NIC of the host, such as eth0"),
        (replace(NIC, master=3), "it is a port of bridge br0; name that with --bridge br0"),
        (replace(NIC, up=False), "it is down; take it up before: `ip link set eth0 up`"),
    ],
    ids=["a bridge", "a tunnel", "a port", "down"],
)
def test_a_link_that_is_no_free_nic_is_refused(nic: Link, said: str) -> None:
    assert trouble(nic, OTHER) == f"cannot make a bridge of NIC eth0: {said}"


def test_the_part_of_a_bond_leads_to_the_bond() -> None:
    bond = replace(OTHER, name="bond0", kind="bond")
    assert trouble(replace(NIC, master=3), bond).endswith("it is a part of bond0; name that with --nic bond0")


def test_what_is_spelt_alike_is_told() -> None:
    assert "eth0" in trouble(NIC, name="eth00")


def test_a_wireless_nic_is_refused() -> None:
    assert "an access point takes no frames of others" in trouble(NIC, hardware=NicHardware(True, True))


def test_a_macvlan_has_the_nic_already() -> None:
    taker = Link(index=4, name="mv0", kind="macvtap", mac="", mtu=1500, up=True, lower=NIC.index)
    assert "mv0 takes its frames; remove it" in trouble(NIC, taker)


def test_who_manages_the_nic_is_named_with_the_remedy() -> None:
    manager = NicManager("NetworkManager", "have it make the bridge")
    said = "NetworkManager configures it, and would undo the move; have it make the bridge"
    assert trouble(NIC, manager=manager).endswith(said)


@pytest.mark.parametrize(
    ("carried", "said"),
    [
        (Carried(leases=("192.0.2.4",)), "192.0.2.4 is a lease"),
        (Carried(peers=("192.0.2.6",)), "point-to-point address (to 192.0.2.6)"),
        (Carried(odd_routes=("a", "b", "c", "d")), "the route to a, b, c and 1 more has several next hops"),
        (Carried(has_rules=True), "rules of `ip rule` name it"),
    ],
    ids=["a lease", "a peer", "odd routes", "rules"],
)
def test_what_could_not_be_moved_back_whole_is_not_moved(carried: Carried, said: str) -> None:
    assert said in trouble(NIC, carried=carried)


def test_a_link_of_the_bridge_s_name_is_somebody_s() -> None:
    assert "there is a link kvb-eth0 already" in trouble(NIC, replace(OTHER, name="kvb-eth0"))
