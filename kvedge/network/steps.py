"""The single changes to a network namespace that the plans of this folder consist of; `apply_step` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from kvedge.network.link_types import Route
from kvedge.network.nft.nft_tables import Family, Table

# By the name of a set: some of its elements.
Contents = Mapping[str, tuple[bytes, ...]]


class AddBridge(Struct, frozen=True):
    """A bridge without spanning tree: its ports forward at once."""

    name: str
    mac: str
    mtu: int


class AddVeth(Struct, frozen=True):
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


class AddTap(Struct, frozen=True):
    """A persistent tap."""

    name: str
    owner: tuple[int, int]
    multi_queue: bool


class AddStandIn(Struct, frozen=True):
    """A link that is never up and only keeps a name, a MAC and an MTU."""

    name: str
    mac: str
    mtu: int


class AddMacvtap(Struct, frozen=True):
    """A link on `lower`, which is here, made in the namespace at `netns`. The process that opens its device has its
    frames.
    """

    name: str
    lower: str
    netns: Path
    mode: str
    mac: str
    mtu: int


class DeleteLink(Struct, frozen=True):
    """Removes a link of ours."""

    name: str


class SetLink(Struct, frozen=True):
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


class SetPortVlans(Struct, frozen=True):
    """Makes a bridge port one of these VLANs alone: frames of `untagged` have no tag there, those of `tagged` have
    theirs; `untagged` is 0 for a port that takes no frame without a tag."""

    name: str
    untagged: int
    tagged: tuple[tuple[int, int], ...] = ()


class AddPortVlans(Struct, frozen=True):
    """Has a bridge port carry these VLANs with their tags, besides what it carries already."""

    name: str
    tagged: tuple[tuple[int, int], ...]


class LimitRate(Struct, frozen=True):
    """Holds what a link sends to so many bytes a second: a bucket, and a queue beyond which is dropped, in bytes."""

    name: str
    rate: int
    bucket: int
    queue: int


class KnowMac(Struct, frozen=True):
    """Tells a bridge which of its ports a MAC belongs to, for ports that learn none; a port that has it keeps it."""

    link: str
    mac: str


class ForgetOwnMac(Struct, frozen=True):
    """Makes a bridge treat its own port's MAC as any other: what is for it goes to whom it belongs to."""

    link: str
    mac: str


class AddAddress(Struct, frozen=True):
    """Gives a link an address; its subnet is on the link, unless it is not `connected`."""

    link: str
    address: str
    prefix_length: int
    connected: bool = True


class AddSideAddress(Struct, frozen=True):
    """Gives a link an address beside its own, with a mark of ours as its maker."""

    link: str
    address: str
    protocol: int


class RemoveAddress(Struct, frozen=True):
    """Takes an address off a link."""

    link: str
    address: str
    prefix_length: int


class AddRoute(Struct, frozen=True):
    """Puts a route of the record back."""

    link: str
    route: Route


class RemoveRoute(Struct, frozen=True):
    """Takes a route of ours away."""

    link: str
    route: Route


class SetSysctl(Struct, frozen=True):
    """A kernel setting of the namespace, or of one link; of a link of `others` only while it is there."""

    name: str
    value: str
    others: bool = False


class AddTable(Struct, frozen=True):
    """Makes an nftables table of ours, unless one of its name is there."""

    table: Table


class ReplaceTable(Struct, frozen=True):
    """Makes an nftables table of ours be exactly this, with these keys in its sets, at once.

    `instead_of` names those of its family that it takes the place of.
    """

    table: Table
    elements: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    instead_of: tuple[str, ...] = ()


class ChangeElements(Struct, frozen=True):
    """Adds keys to sets of a table of ours, and removes others, at once."""

    table: Table
    add: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    remove: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)


class ReplaceTables(Struct, frozen=True):
    """As `ReplaceTable`, for tables that belong together, all at once."""

    tables: tuple[tuple[Table, Contents], ...]


class ChangeTables(Struct, frozen=True):
    """As `ChangeElements`, for tables that belong together, all at once: what to add to each, and what to remove."""

    changes: tuple[tuple[Table, Contents, Contents], ...]


class DeleteTable(Struct, frozen=True):
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
