"""Finds the link that somebody else has made for a guest in its Pod: a tap, or the Pod's NIC itself.

Called by the handler, as root on the host, for binding plugins that leave the guest's link to a CNI plugin. A tap is
not changed: the launcher opens it, which needs the right to do so from whoever has made it. A macvtap gets what keeps
its guest in bounds (`macvtap_binding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.network.binding.binding_state import LARGEST_TAP_MTU, Names, is_link_local, names_for
from kvedge.network.binding.bound_interface import BoundInterface
from kvedge.network.binding.macvtap_binding import prepare_macvtap
from kvedge.network.binding.macvtap_rules import MACVTAP
from kvedge.network.binding.pod_namespace import pod_namespace
from kvedge.network.errors import NetworkError, UnsuitablePodError
from kvedge.network.link_types import Address, Link
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns

# Kinds of links that QEMU can open.
OPENED: Final = ("tun", MACVTAP)


def ready_tap(netns: NetnsRef, *, guest_mac: str, asked_mac: bool, pod_interface: str, index: int) -> BoundInterface:
    """The link of the guest on this NIC of the Pod.

    `asked_mac`: the VM names its MAC; otherwise the guest has that of the Pod's NIC, which the network expects. Raises
    NetworkError when there is no link that QEMU can open.
    """
    names = names_for(pod_interface, index)
    pod_namespace(netns)

    def look() -> BoundInterface:
        mac = guest_mac.lower() if asked_mac else ""
        with Links() as links:
            seen = links.list_links()
            found = find_tap(seen, links.list_addresses(), names, mac)
            link = next(link for link in seen if link.name == found.tap)
            if link.kind == MACVTAP:
                # The MAC that the domain gets, and the guard lets pass, is the link's own.
                prepare_macvtap(links, link, found.mac)
        return found

    return run_in_netns(netns, look)


def find_tap(links: Sequence[Link], addresses: Sequence[Address], names: Names, guest_mac: str) -> BoundInterface:
    """The tap of our name, if somebody has made it, else the Pod's NIC. Pure; raises NetworkError."""
    by_name = {link.name: link for link in links}
    nic = by_name.get(names.pod)
    link = by_name.get(names.tap) or nic
    if link is None:
        raise NetworkError(
            "cannot bind",
            subject=names.pod,
            why=f"the Pod has no such interface, and no {names.tap}",
            remedy="see whether the binding plugin's network and its CNI plugin are there, then replace the Pod",
        )
    if link.kind not in OPENED:
        raise UnsuitablePodError(
            "cannot bind",
            subject=link.name,
            why=f"the binding plugin leaves it to the guest, and it is {link.kind or 'a NIC'}, which QEMU cannot open",
            remedy="use a CNI plugin that makes a tap or a macvtap there, or domainAttachmentType managedTap",
        )
    own = nic if nic is not None else link
    return BoundInterface(
        tap=link.name,
        bridge="",
        mac=guest_mac or own.mac,
        mtu=min(link.mtu, LARGEST_TAP_MTU),
        pod_addresses=tuple(
            each.address for each in addresses if each.link == own.index and not is_link_local(each.address)
        ),
    )
