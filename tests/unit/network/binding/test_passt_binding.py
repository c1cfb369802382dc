"""What passt speaks from: the Pod's NIC as it is."""

from __future__ import annotations

import pytest

from kvedge.network.binding.passt_binding import find_nic
from kvedge.network.errors import NetworkError, UnsuitablePodError
from kvedge.network.link_types import Address, Link

MAC = "52:54:00:00:00:07"


def nic(name: str = "eth0", mtu: int = 1450) -> Link:
    return Link(index=2, name=name, kind="veth", mac="02:00:00:00:00:01", mtu=mtu, up=True, carrier=True)


def test_the_guest_is_known_by_the_pods_first_address_of_each_version_and_has_no_tap() -> None:
    addresses = [
        Address(1, "127.0.0.1", 8),
        Address(2, "fe80::7", 64, 6),
        Address(2, "fd00::7", 64, 6),
        Address(2, "10.9.0.7", 24),
        Address(2, "10.9.0.8", 24),
    ]
    found = find_nic([nic("lo"), nic()], addresses, "eth0", MAC)
    assert (found.tap, found.bridge, found.mac, found.mtu) == ("", "", MAC, 1450)
    assert (found.pod_addresses, found.address, found.ipv6) == (("10.9.0.7", "fd00::7"), "", None)


def test_an_mtu_that_passt_cannot_tell_is_cut() -> None:
    assert find_nic([nic(mtu=65536)], [Address(2, "10.9.0.7", 24)], "eth0", MAC).mtu == 65520


def test_a_nic_without_an_address_is_refused_with_a_remedy() -> None:
    with pytest.raises(UnsuitablePodError, match=r"no address.*use a CNI plugin with addresses, or bridge"):
        find_nic([nic()], [Address(2, "fe80::7", 64, 6)], "eth0", MAC)


def test_a_nic_that_is_not_there_is_waited_for() -> None:
    with pytest.raises(NetworkError, match="no such interface"):
        find_nic([nic("lo")], [], "eth0", MAC)
