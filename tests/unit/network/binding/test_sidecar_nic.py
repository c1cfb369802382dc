"""What is seen of the Pod's NIC where a sidecar makes the guest's interface."""

from __future__ import annotations

from kvedge.network.binding.sidecar_nic import find_nic
from kvedge.network.link_types import Address, Link

MAC = "52:54:00:00:00:07"
NIC = Link(index=2, name="eth0", kind="veth", mac="02:00:00:00:00:01", mtu=1450, up=True, carrier=True)


def test_the_guest_is_known_by_the_pods_addresses_and_has_no_link_of_ours() -> None:
    addresses = [Address(1, "127.0.0.1", 8), Address(2, "fe80::7", 64, 6), Address(2, "10.9.0.7", 24)]
    found = find_nic([NIC], addresses, "eth0", MAC)
    assert (found.tap, found.bridge, found.mac, found.mtu) == ("", "", MAC, 1450)
    assert (found.pod_addresses, found.address) == (("10.9.0.7",), "")


def test_a_nic_that_the_plugins_network_did_not_make_is_nothing_to_wait_for() -> None:
    found = find_nic([NIC], [Address(2, "10.9.0.7", 24)], "pod1", MAC)
    assert (found.tap, found.mac, found.pod_addresses) == ("", MAC, ())
