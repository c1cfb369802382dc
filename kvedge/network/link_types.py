"""What rtnetlink tells, as values: links, addresses, routes. Pure: plans decide by them and know no socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAIN_TABLE: Final = 254
# rtnetlink's number for routes that the kernel made by itself (connected subnets).
PROTO_KERNEL: Final = 2
# And for those that an administrator made, as which ours pass.
PROTO_STATIC: Final = 4
# From here on the maker of an address is a box of kvedge: rtnetlink's own numbers of makers end below.
FIRST_ADDRESS_MARK: Final = 64


@dataclass(frozen=True)
class Link:
    """One link as the kernel tells it. `kind` is empty for hardware; `master` and `peer_index` are 0 without one."""

    index: int
    name: str
    kind: str
    mac: str
    mtu: int
    up: bool
    # Whether somebody is at the other end: for a tap, a QEMU that has it open.
    carrier: bool = False
    master: int = 0
    alias: str = ""
    # The index of a veth's other end, which may lie in another namespace.
    peer_index: int = 0
    # The index of the link that this one is a part of, as a VLAN or a macvlan is of its NIC.
    lower: int = 0
    # Whether a bridge port learns MACs; None when it is no bridge port.
    learning: bool | None = None
    # Whether a frame may leave a bridge by the port by which it came; None when it is no bridge port.
    hairpin: bool | None = None
    # Whether a bridge remembers who listens to which multicast group; None when it is no bridge.
    snooping: bool | None = None
    multi_queue: bool = False
    # Whether a bridge keeps VLANs apart; None when it is no bridge.
    vlan_filtering: bool | None = None
    # Whether it takes the frames of every multicast group.
    all_multicast: bool = False


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a link has counted in one direction since it was made.

    `missed`: of what it received, for which it had no room. `queue_dropped`: of what it was to send, what its queue did
    not take, as where it is held to a rate.
    """

    packets: int = 0
    bytes: int = 0
    dropped: int = 0
    errors: int = 0
    missed: int = 0
    queue_dropped: int = 0


@dataclass(frozen=True, slots=True)
class CountedLink:
    """A link with what it has received and sent."""

    link: Link
    received: Traffic
    sent: Traffic


@dataclass(frozen=True)
class Address:
    """One address on the link of index `link`: `address` without, `prefix_length` with the length; `version` 4 or 6."""

    link: int
    address: str
    prefix_length: int
    version: int = 4
    # It was told by a router of the link and ends unless told again; nobody configured it.
    dynamic: bool = False
    # The number of its maker in rtnetlink's table; kernels before 5.18 tell nothing.
    protocol: int = 0
    # Another host of the link has it as well (IPv6 alone).
    duplicate: bool = False


@dataclass(frozen=True)
class Route:
    """One unicast route. `destination` as CIDR, `gateway` empty for what is on the link, `link` 0 for several."""

    destination: str
    gateway: str
    link: int
    table: int = MAIN_TABLE
    protocol: int = 0
    metric: int = 0
