"""The single changes to a network namespace that the plans of this folder consist of; `apply_step` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvedge.network.link_types import Route
from kvedge.network.nft.nft_tables import Family, Table

# By the name of a set: some of its elements.
Contents = Mapping[str, tuple[bytes, ...]]


@dataclass(frozen=True)
class AddBridge:
    """A bridge without spanning tree: its ports forward at once."""

    name: str
    mac: str
    mtu: int


@dataclass(frozen=True)
class AddVeth:
    """A pair of which one end is made here and the other, `peer`, in the namespace at `netns`, both at once.

    The peer's MTU is `peer_mtu`, or where that is None the same. `mac` is this end's; empty for one of the kernel's.
    """

    name: str
    peer: str
    netns: Path
    peer_mac: str
    mtu: int
    peer_mtu: int | None = None
    mac: str = ""


@dataclass(frozen=True)
class AddTap:
    """A persistent tap."""

    name: str
    owner: tuple[int, int]
    multi_queue: bool


@dataclass(frozen=True)
class AddStandIn:
    """A link that is never up and only keeps a name, a MAC and an MTU."""

    name: str
    mac: str
    mtu: int


@dataclass(frozen=True)
class AddMacvtap:
    """A link on `lower`, which is here, made in the namespace at `netns`. The process that opens its device has its
    frames.
    """

    name: str
    lower: str
    netns: Path
    mode: str
    mac: str
    mtu: int


@dataclass(frozen=True)
class DeleteLink:
    """Removes a link of ours."""

    name: str


@dataclass(frozen=True)
class SetLink:
    """Changes what is not None of a link."""

    name: str
    rename: str | None = None
    mac: str | None = None
    mtu: int | None = None
    up: bool | None = None
    # The bridge to be a port of; empty for none.
    master: str | None = None
    learning: bool | None = None
    # Whether a bridge port reaches only those that are not isolated themselves.
    isolated: bool | None = None
    # Whether a frame may leave the bridge by the port by which it came.
    hairpin: bool | None = None
    # Whether a bridge remembers who listens to which multicast group.
    snooping: bool | None = None
    # Whether a bridge keeps VLANs apart.
    vlan_filtering: bool | None = None
    # To take the frames of every multicast group; never taken back.
    all_multicast: bool = False
    # Free text on a link, by which we know our own and what they are for.
    alias: str | None = None


@dataclass(frozen=True)
class SetPortVlans:
    """Makes a bridge port one of these VLANs alone: frames of `untagged` have no tag there, those of `tagged` have
    theirs; `untagged` is 0 for a port that takes no frame without a tag."""

    name: str
    untagged: int
    tagged: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class AddPortVlans:
    """Has a bridge port carry these VLANs with their tags, besides what it carries already."""

    name: str
    tagged: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LimitRate:
    """Holds what a link sends to so many bytes a second: a bucket, and a queue beyond which is dropped, in bytes."""

    name: str
    rate: int
    bucket: int
    queue: int


@dataclass(frozen=True)
class KnowMac:
    """Tells a bridge which of its ports a MAC belongs to, for ports that learn none; a port that has it keeps it."""

    link: str
    mac: str


@dataclass(frozen=True)
class ForgetOwnMac:
    """Makes a bridge treat its own port's MAC as any other: what is for it goes to whom it belongs to."""

    link: str
    mac: str


@dataclass(frozen=True)
class AddAddress:
    """Gives a link an address; its subnet is on the link, unless it is not `connected`."""

    link: str
    address: str
    prefix_length: int
    connected: bool = True


@dataclass(frozen=True)
class AddSideAddress:
    """Gives a link an address beside its own, with a mark of ours as its maker."""

    link: str
    address: str
    protocol: int


@dataclass(frozen=True)
class RemoveAddress:
    """Takes an address off a link."""

    link: str
    address: str
    prefix_length: int


@dataclass(frozen=True)
class AddRoute:
    """Puts a route of the record back."""

    link: str
    route: Route


@dataclass(frozen=True)
class RemoveRoute:
    """Takes a route of ours away."""

    link: str
    route: Route


@dataclass(frozen=True)
class SetSysctl:
    """A kernel setting of the namespace, or of one link; of a link of `others` only while it is there."""

    name: str
    value: str
    others: bool = False


@dataclass(frozen=True)
class AddTable:
    """Makes an nftables table of ours, unless one of its name is there."""

    table: Table


@dataclass(frozen=True)
class ReplaceTable:
    """Makes an nftables table of ours be exactly this, with these keys in its sets, at once.

    `instead_of` names those of its family that it takes the place of.
    """

    table: Table
    elements: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    instead_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChangeElements:
    """Adds keys to sets of a table of ours, and removes others, at once."""

    table: Table
    add: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    remove: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ReplaceTables:
    """As `ReplaceTable`, for tables that belong together, all at once."""

    tables: tuple[tuple[Table, Contents], ...]


@dataclass(frozen=True)
class ChangeTables:
    """As `ChangeElements`, for tables that belong together, all at once: what to add to each, and what to remove."""

    changes: tuple[tuple[Table, Contents, Contents], ...]


@dataclass(frozen=True)
class DeleteTable:
    """Removes a table of ours."""

    family: Family
    name: str


Step = (
    AddBridge
    | AddVeth
    | AddTap
    | AddStandIn
    | AddMacvtap
    | DeleteLink
    | SetLink
    | SetPortVlans
    | AddPortVlans
    | LimitRate
    | KnowMac
    | ForgetOwnMac
    | AddAddress
    | AddSideAddress
    | RemoveAddress
    | AddRoute
    | RemoveRoute
    | SetSysctl
    | AddTable
    | ReplaceTable
    | ChangeElements
    | ReplaceTables
    | ChangeTables
    | DeleteTable
)
