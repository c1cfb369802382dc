"""What is seen of the Pod's NIC where the sidecar of a binding plugin makes the guest's interface.

Called by the handler, as root on the host. Reads links and addresses; makes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvedge.network.binding.binding_state import is_link_local
from kvedge.network.binding.bound_interface import BoundInterface
from kvedge.network.binding.pod_namespace import look_into_pod
from kvedge.network.link_types import Address, Link
from kvedge.network.netns import NetnsRef


def sidecar_pod_interface(netns: NetnsRef, *, guest_mac: str, pod_interface: str) -> BoundInterface:
    """The Pod's NIC for the VMI's status, and no link for the guest.

    Raises:
        NetworkError: when the Pod's namespace cannot be read.
    """
    return look_into_pod(netns, lambda links, addresses: find_nic(links, addresses, pod_interface, guest_mac))


def find_nic(links: Sequence[Link], addresses: Sequence[Address], pod_interface: str, guest_mac: str) -> BoundInterface:
    """The same of what was seen. Pure. The plugin's network need not have made the NIC: then nothing is known of it."""
    nic = next((link for link in links if link.name == pod_interface), None)
    if nic is None:
        return BoundInterface(tap="", bridge="", mac=guest_mac, mtu=0)
    own = [each.address for each in addresses if each.link == nic.index and not is_link_local(each.address)]
    return BoundInterface(tap="", bridge="", mac=guest_mac, mtu=nic.mtu, pod_addresses=tuple(own))
