"""What a bridge binding is planned from: the names of its objects, how the Pod's NIC was, and how the namespace is now.

Pure values, shared by the plan, the record's file and the door.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address, Link, Route

GUARD_PREFIX: Final = "kvedge_guard_"
# To be counted up with each change of its rules: another set of rules is another table.
GUARD_VERSION: Final = 1
# A link's name has 15 letters at most, and `k6t-` and `-nic` take four.
LONGEST_BASE: Final = 11
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


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The namespace as it is. `sysctls` holds the settings that `sysctls_to_read` names, where they exist."""

    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    guards: tuple[str, ...]
    sysctls: Mapping[str, str]

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
