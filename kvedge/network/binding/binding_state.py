"""What a bridge binding is planned from: the names of its objects, how the Pod's NIC was, and how the namespace is now.

Pure values, shared by the plan, the record's file and the door.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace  # noqa: TID251 - of dataclasses: launchers do without msgspec
from ipaddress import IPv6Address, ip_interface
from typing import Final

from kvedge.network.errors import NetworkError
from kvedge.network.link_types import PROTO_KERNEL, Address, Link, Route

GUARD_PREFIX: Final = "kvedge_guard_"
# To be counted up with each change of its rules: another set of rules is another table.
GUARD_VERSION: Final = 4
# A link's name has 15 letters at most, and `k6t-` and `-nic` take four.
LONGEST_BASE: Final = 11
# IPv6 asks it of every link (RFC 8200).
SMALLEST_IPV6_MTU: Final = 1280
# The kernel's limit for a tap.
LARGEST_TAP_MTU: Final = 65521
# 169.254.75.10 to 169.254.75.199
MOST_INTERFACES: Final = 99


@dataclass(frozen=True)
class Names:
    """What the objects of one guest NIC are called, and the address at which DHCP is served."""

    pod: str
    nic: str
    bridge: str
    tap: str
    guard: str
    server: str

    @property
    def is_lent(self) -> bool:
        """Whether the Pod's NIC keeps its name, so that nothing stands in for it."""
        return self.nic == self.pod


def keep_lent_name(names: Names) -> Names:
    """The same for a NIC that has to keep its name: CNI's host-device has lent it, and asks for it by that name.

    It is known by its alias, in which that plugin keeps what the NIC is called on the node.
    """
    return replace(names, nic=names.pod)


def names_for(pod_interface: str, index: int) -> Names:
    """KubeVirt's names; `index` is the VMI's count of the interface.

    `eth0` gives `k6t-eth0`, `eth0-nic` and `tap0`, `net1` gives `tap1`, and a secondary `pod0123456789a` goes by its
    digits.
    """
    base = pod_interface.removeprefix("pod") if len(pod_interface) > LONGEST_BASE else pod_interface
    if not base or len(base) > LONGEST_BASE or not 0 <= index <= MOST_INTERFACES:
        raise NetworkError(
            "cannot bind interface", subject=pod_interface, why="its name or number has no place in ours"
        )
    return Names(
        pod=pod_interface,
        nic=f"{base}-nic",
        bridge=f"k6t-{base}",
        tap=f"tap{base.removeprefix('eth').removeprefix('net')}",
        guard=f"{GUARD_PREFIX}{GUARD_VERSION}_{pod_interface}",
        server=f"169.254.75.1{index}",
    )


@dataclass(frozen=True, kw_only=True)
class Record:
    """What the Pod's NIC was before kvedge touched it. `netns` tells for which namespace that holds."""

    netns: str
    index: int
    name: str
    mac: str
    mtu: int
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    # The namespace's settings that are changed, with the values they had.
    sysctls: Mapping[str, str] = field(default_factory=dict)

    @property
    def guest_mtu(self) -> int:
        """The Pod's, as far as a tap can have it."""
        return min(self.mtu, LARGEST_TAP_MTU)

    @property
    def ipv4(self) -> Address | None:
        """The address that the guest gets, the first of them."""
        return next((address for address in self.addresses if address.version == 4), None)

    @property
    def ipv6(self) -> Address | None:
        """As `ipv4`. What a router of the link told the Pod, it tells the guest as well: that is not ours to give."""
        if self.mtu < SMALLEST_IPV6_MTU or self.asks_its_router:
            return None
        return next((address for address in self.addresses if address.version == 6), None)

    @property
    def asks_its_router(self) -> bool:
        """Whether the Pod has its IPv6 addresses from a router of the link."""
        return any(address.dynamic for address in self.addresses)

    def is_on_link(self, address: Address) -> bool:
        """Whether the neighbours in the address's subnet are on the link: some CNIs route them all by a gateway."""
        subnet = str(ip_interface(f"{address.address}/{address.prefix_length}").network)
        return any(
            route.destination == subnet and route.protocol == PROTO_KERNEL and not route.gateway
            for route in self.routes
        )


def is_link_local(address: str) -> bool:
    """Whether it is an IPv6 address that every link has by itself."""
    return ":" in address and IPv6Address(address).is_link_local


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The namespace as it is. `sysctls` holds the settings that `sysctls_to_read` names, where they exist."""

    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    guards: tuple[str, ...]
    sysctls: Mapping[str, str]
    # (port, MAC) of what bridges keep for themselves; read only where a port has a MAC of the guest's.
    own_macs: tuple[tuple[int, str], ...] = ()

    def link(self, name: str) -> Link | None:
        """The link of that name."""
        return next((link for link in self.links if link.name == name), None)

    def addresses_of(self, link: Link | None) -> tuple[Address, ...]:
        """The addresses on that link; none for None."""
        return tuple(address for address in self.addresses if link is not None and address.link == link.index)


def is_touched(seen: Seen, names: Names) -> bool:
    """Whether a binding was begun here, by whichever version: the guard comes first and goes last."""
    return bool(guards_of(seen, names))


def guards_of(seen: Seen, names: Names) -> list[str]:
    """This NIC's guards: another version's differs in its number alone."""
    return [guard for guard in seen.guards if _without_number(guard) == _without_number(names.guard)]


def _without_number(guard: str) -> str:
    return guard.removeprefix(GUARD_PREFIX).lstrip("0123456789")
