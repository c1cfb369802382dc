"""Tables of nftables as values: a table has chains and sets, a chain has rules, a rule has expressions.

Pure; `nft_rules` has the expressions that kvedge's rules are made of, and `nft_edge` puts a table into the kernel.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Family(enum.IntEnum):
    """Address families of tables."""

    INET = 1
    IP = 2
    NETDEV = 5
    BRIDGE = 7
    IP6 = 10


class Hook(enum.IntEnum):
    """Where a base chain is called; the bridge family counts in the same way."""

    PREROUTING = 0
    INPUT = 1
    FORWARD = 2
    OUTPUT = 3
    POSTROUTING = 4


class LinkHook(enum.IntEnum):
    """The same for family netdev, whose chains belong to one link: what comes in by it, and what is sent by it."""

    INGRESS = 0
    EGRESS = 1


@dataclass(frozen=True)
class Expression:
    """One step of a rule: the kernel's name of it and its attributes without prefix (`payload`, {`base`: 1 …})."""

    name: str
    attributes: Mapping[str, Value] = field(default_factory=dict)


# Value of an attribute of an expression: a number, bytes for data, text for a name, the names of flags, or another
# expression.
Value = int | bytes | str | frozenset[str] | Expression

Rule = tuple[Expression, ...]


@dataclass(frozen=True)
class Chain:
    """A base chain: called at `hook` in order of `priority`; what no rule decides is accepted.

    `link` is the one whose frames it sees, for a hook of links. A chain without a hook is called by rules of others
    alone, and stands before them in its table.
    """

    name: str
    hook: Hook | LinkHook | None
    priority: int
    rules: tuple[Rule, ...]
    type: str = "filter"
    link: str = ""


@dataclass(frozen=True)
class Set:
    """A set of keys, each made of fields: `fields` names nft's data types, in order, and gives each one's bytes.

    With `most`, rules add the keys, so many at most; each is forgotten `seconds` after a packet last named it, or, when
    that is 0, when what was counted for it is over. With `data`, it is a map: an element is a key and, behind it, what
    the key leads to, made of fields as well. With `ranges`, an element is the first key of a range and the first one
    behind it, and then what all of them lead to; keys compare as bytes do.
    """

    name: str
    fields: tuple[tuple[str, int], ...]
    most: int = 0
    seconds: int = 0
    data: tuple[tuple[str, int], ...] = ()
    ranges: bool = False

    @property
    def key_length(self) -> int:
        """Bytes of a key."""
        return _length(self.fields)

    @property
    def data_length(self) -> int:
        """Bytes of what a key leads to."""
        return _length(self.data)


def _length(fields: tuple[tuple[str, int], ...]) -> int:
    """A single field is as long as it is; of several, each is padded to four bytes."""
    return fields[0][1] if len(fields) == 1 else sum(-(-length // 4) * 4 for _, length in fields)


@dataclass(frozen=True)
class Table:
    """A whole table of ours."""

    family: Family
    name: str
    chains: tuple[Chain, ...]
    sets: tuple[Set, ...] = ()
