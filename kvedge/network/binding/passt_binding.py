"""What passt speaks from in a Pod: the Pod's own NIC, which stays as the CNI has left it.

Called by the handler, as root on the host. Reads links and addresses; makes nothing, as passt is the launcher's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.network.binding.binding_state import is_link_local
from kvedge.network.binding.bound_interface import BoundInterface
from kvedge.network.binding.pod_namespace import look_into_pod
from kvedge.network.errors import NetworkError, UnsuitablePodError
from kvedge.network.link_types import Address, Link
from kvedge.network.netns import NetnsRef

# The largest that passt tells a guest of.
LARGEST_PASST_MTU: Final = 65520


def passt_pod_interface(netns: NetnsRef, *, guest_mac: str, pod_interface: str) -> BoundInterface:
    """The guest's side of this NIC of the Pod, whose addresses it is given by passt.

    Raises:
        NetworkError: when the Pod has no such NIC, or the NIC no address.
    """
    return look_into_pod(netns, lambda links, addresses: find_nic(links, addresses, pod_interface, guest_mac))


def find_nic(links: Sequence[Link], addresses: Sequence[Address], pod_interface: str, guest_mac: str) -> BoundInterface:
    """The same of what was seen. Pure; raises NetworkError."""
    nic = next((link for link in links if link.name == pod_interface), None)
    if nic is None:
        raise NetworkError("cannot bind", subject=pod_interface, why="the Pod has no such interface")
    own = [each for each in addresses if each.link == nic.index and not is_link_local(each.address)]
    if not own:
        raise UnsuitablePodError(
            "cannot bind",
            subject=pod_interface,
            why="the CNI gave it no address, and passt speaks from the Pod's own",
            remedy="use a CNI plugin with addresses, or bridge: {}",
        )
    # passt gives a guest one address of each version: the NIC's first.
    first = {each.version: each.address for each in reversed(own)}
    return BoundInterface(
        tap="",
        bridge="",
        mac=guest_mac,
        mtu=min(nic.mtu, LARGEST_PASST_MTU),
        pod_addresses=tuple(first[version] for version in sorted(first)),
    )
