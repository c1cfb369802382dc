"""Counting what our filters drop: for each link and each reason, in a set of the filter's own table.

Called by whoever makes such a table, and by `insight`, which reads the counts. Pure. A rule that drops leads to a chain
of its reason: the count is made there, so that packets that pass cost what they did before, and a set that is full
keeps no packet from being dropped. A count is forgotten a day after the last packet that was counted.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace  # noqa: TID251 - of dataclasses: launchers do without msgspec
from types import MappingProxyType
from typing import Final

from kvedge.network.nft.nft_rules import AFTER_NAME, DROP, IIFNAME, NAME_LENGTH, REGISTER, REGISTER32, meta
from kvedge.network.nft.nft_tables import Chain, Expression, Rule, Set, Table

# nft's number for a jump without return.
_GOTO: Final = -4
_UPDATE: Final = 1
_CHAIN: Final = "drop_"
_DAY: Final = 24 * 3600
_NUMBER: Final = struct.Struct("=I")


class Reason(enum.IntEnum):
    """Why a frame of a guest was dropped; the numbers stay as they are, for tables that are there already."""

    MAC = 1
    ARP = 2
    ADDRESS = 3
    NEIGHBOUR = 4
    PROTOCOL = 5
    TAG = 6
    BRIDGE = 7
    DHCP_SERVER = 8
    ROUTER = 9
    TOO_MANY_ADDRESSES = 10


# The words that users read.
WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        Reason.MAC: "from another's MAC",
        Reason.ARP: "ARP of another's MAC or address",
        Reason.ADDRESS: "from another's address",
        Reason.NEIGHBOUR: "IPv6 neighbour with another's address",
        Reason.PROTOCOL: "a protocol that does not pass",
        Reason.TAG: "the tag of a VLAN that is not the guest's",
        Reason.BRIDGE: "spanning tree and others of bridges",
        Reason.DHCP_SERVER: "answers of a DHCP server",
        Reason.ROUTER: "messages of a router",
        Reason.TOO_MANY_ADDRESSES: "more addresses than a guest may have",
    }
)
DROPPED: Final = Set("kvedge_dropped", (("ifname", NAME_LENGTH), ("mark", 4)), most=65_535, seconds=_DAY)


@dataclass(frozen=True, slots=True)
class Dropped:
    """What was counted for one key of a set."""

    packets: int
    bytes: int


def drop(reason: Reason) -> Expression:
    """The end of a rule: the frame is dropped, and counted for the link by which it came."""
    return Expression("verdict", {"code": _GOTO, "chain": _chain_name(reason)})


def counting(table: Table) -> Table:
    """The table, with what its rules need that end in `drop`."""
    steps = [step for chain in table.chains for rule in chain.rules for step in rule]
    named = {step.attributes.get("chain") for step in steps if step.name == "verdict"}
    chains = tuple(_chain(reason) for reason in Reason if _chain_name(reason) in named)
    return replace(table, chains=(*chains, *table.chains), sets=(*table.sets, DROPPED))


def count_by(key: Expression, counts: Set) -> Rule:
    """The start of a rule that drops: it counts for the key that is loaded into the first register."""
    return key, _count(counts, REGISTER)


def drops_by_link(elements: Iterable[tuple[bytes, Dropped]]) -> dict[str, dict[str, Dropped]]:
    """The contents of such a set: for each link what was dropped, by the words for the reason."""
    found: dict[str, dict[str, Dropped]] = {}
    for key, count in elements:
        link = key[:NAME_LENGTH].rstrip(b"\0").decode(errors="replace")
        (number,) = _NUMBER.unpack(key[NAME_LENGTH : NAME_LENGTH + 4])
        words = WORDS.get(number, f"reason {number}")
        found.setdefault(link, {})[words] = count
    return found


def _chain(reason: Reason) -> Chain:
    number = Expression("immediate", {"dreg": AFTER_NAME, "data": _NUMBER.pack(reason)})
    return Chain(
        _chain_name(reason), None, 0, ((meta(IIFNAME, REGISTER32), number, _count(DROPPED, REGISTER32)), (DROP,))
    )


def _count(counts: Set, register: int) -> Expression:
    counter = Expression("counter")
    return Expression("dynset", {"set_name": counts.name, "op": _UPDATE, "sreg_key": register, "expr": counter})


def _chain_name(reason: Reason) -> str:
    return _CHAIN + reason.name.lower()
