"""The netlink messages of nftables: what the kernel is told of tables, sets, chains, rules and keys.

Called by `nft_edge`, which sends them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyroute2.netlink import NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_REQUEST
from pyroute2.netlink.nfnetlink import NFNL_SUBSYS_NFTABLES, nfgen_msg
from pyroute2.netlink.nfnetlink.nftsocket import (
    NFT_MSG_DELSETELEM,
    NFT_MSG_DELTABLE,
    NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWRULE,
    NFT_MSG_NEWSET,
    NFT_MSG_NEWSETELEM,
    NFT_MSG_NEWTABLE,
    nft_chain_msg,
    nft_rule_msg,
    nft_set_elem_list_msg,
    nft_set_msg,
    nft_table_msg,
)

from kvedge.network.nft.nft_elements import element_parts
from kvedge.network.nft.nft_tables import Chain, Expression, Family, Rule, Set, Table, Value

# pyroute2 has no types.
Message = Any
_BATCH_BEGIN: Final = 0x10
_BATCH_END: Final = 0x11
# nft's numbers of data types, by which `nft list` knows how to print a key.
_TYPE_NUMBERS: Final[Mapping[str, int]] = {
    "integer": 4,
    "ipv4_addr": 7,
    "ipv6_addr": 8,
    "ether_addr": 9,
    "inet_proto": 12,
    "inet_service": 13,
    "mark": 19,
    "ifname": 41,
}
_TYPE_BITS: Final = 6
# An attribute of a message, such as its list of elements, holds at most 64 KiB.
_MOST_ELEMENTS: Final = 500
# Expressions of which the kernel shortens the name before that of an attribute.
_SHORT_NAMES: Final[Mapping[str, str]] = {"numgen": "ng"}


def change_messages(
    table: Table, add: Mapping[str, Iterable[bytes]], remove: Mapping[str, Iterable[bytes]]
) -> Iterator[Message]:
    """Keys to add to sets of a table, and to remove from them; what is to go is made first."""
    removed = {name: list(keys) for name, keys in remove.items()}
    for name, keys in removed.items():
        yield from _elements(table, NFT_MSG_NEWSETELEM, name, keys)
    for name, keys in removed.items():
        yield from _elements(table, NFT_MSG_DELSETELEM, name, keys)
    for name, more in add.items():
        yield from _elements(table, NFT_MSG_NEWSETELEM, name, more)


def renew_table(table: Table) -> list[Message]:
    """The table, empty."""
    return [*remove_table(table), new_table(table)]


def remove_table(table: Table) -> list[Message]:
    """The table goes, whether it is there or not."""
    return [new_table(Table(table.family, table.name, ())), drop_table(table)]


def contents_of(table: Table, elements: Mapping[str, Iterable[bytes]]) -> list[Message]:
    """What is in a new table: its sets and chains, their rules, and these keys."""
    messages = [_make_set_message(table, each, number) for number, each in enumerate(table.sets, start=1)]
    messages += [_new_chain(table, chain) for chain in table.chains]
    messages += [_new_rule(table, chain, rule) for chain in table.chains for rule in chain.rules]
    for name, keys in elements.items():
        messages += _elements(table, NFT_MSG_NEWSETELEM, name, keys)
    return messages


def new_table(table: Table) -> Message:
    """The table is made; one that is there stays."""
    return _message(nft_table_msg, NFT_MSG_NEWTABLE, table.family, NLM_F_CREATE, {"NFTA_TABLE_NAME": table.name})


def drop_table(table: Table) -> Message:
    """The table goes, which must be there."""
    return _message(nft_table_msg, NFT_MSG_DELTABLE, table.family, 0, {"NFTA_TABLE_NAME": table.name})


def _new_chain(table: Table, chain: Chain) -> Message:
    attributes: dict[str, Any] = {"NFTA_CHAIN_TABLE": table.name, "NFTA_CHAIN_NAME": chain.name}
    if chain.hook is not None:
        hook: dict[str, Any] = {"NFTA_HOOK_HOOKNUM": int(chain.hook), "NFTA_HOOK_PRIORITY": chain.priority}
        if chain.link:
            hook["NFTA_HOOK_DEV"] = chain.link
        attributes |= {"NFTA_CHAIN_HOOK": _nest(hook), "NFTA_CHAIN_TYPE": chain.type}
    return _message(nft_chain_msg, NFT_MSG_NEWCHAIN, table.family, NLM_F_CREATE, attributes)


def _new_rule(table: Table, chain: Chain, rule: Rule) -> Message:
    attributes = {
        "NFTA_RULE_TABLE": table.name,
        "NFTA_RULE_CHAIN": chain.name,
        "NFTA_RULE_EXPRESSIONS": [_expression(step) for step in rule],
    }
    return _message(nft_rule_msg, NFT_MSG_NEWRULE, table.family, NLM_F_CREATE | NLM_F_APPEND, attributes)


def _make_set_message(table: Table, wanted: Set, number: int) -> Message:
    attributes: dict[str, Any] = {
        "NFTA_SET_TABLE": table.name,
        "NFTA_SET_NAME": wanted.name,
        "NFTA_SET_FLAGS": set(),
        "NFTA_SET_KEY_TYPE": _type_number(wanted.fields),
        "NFTA_SET_KEY_LEN": wanted.key_length,
        "NFTA_SET_ID": number,
    }
    if wanted.data:
        attributes["NFTA_SET_FLAGS"] = {"NFT_SET_MAP"}
        attributes["NFTA_SET_DATA_TYPE"] = _type_number(wanted.data)
        attributes["NFTA_SET_DATA_LEN"] = wanted.data_length
    if wanted.ranges:
        attributes["NFTA_SET_FLAGS"] |= {"NFT_SET_INTERVAL"}
    if wanted.most:
        attributes["NFTA_SET_FLAGS"] = {"NFT_SET_EVAL"} | ({"NFT_SET_TIMEOUT"} if wanted.seconds else set())
        attributes["NFTA_SET_DESC"] = _nest({"NFTA_SET_DESC_SIZE": wanted.most})
    if wanted.seconds:
        attributes["NFTA_SET_TIMEOUT"] = wanted.seconds * 1000
    return _message(nft_set_msg, NFT_MSG_NEWSET, table.family, NLM_F_CREATE, attributes)


def _type_number(fields: Iterable[tuple[str, int]]) -> int:
    kind = 0
    for name, _ in fields:
        kind = kind << _TYPE_BITS | _TYPE_NUMBERS[name]
    return kind


def _elements(table: Table, kind: int, name: str, elements: Iterable[bytes]) -> list[Message]:
    """The elements of one set, in as many messages as they need."""
    elements = list(elements)
    # Of a set that is not the table's, the kernel says so.
    plain = Set(name, (("integer", max(map(len, elements), default=1)),))
    known = next((each for each in table.sets if each.name == name), plain)
    flags = NLM_F_CREATE if kind == NFT_MSG_NEWSETELEM else 0
    whole = [part for each in elements for part in element_parts(each, known, data=kind == NFT_MSG_NEWSETELEM)]
    messages = []
    for first in range(0, len(whole), _MOST_ELEMENTS):
        attributes = {
            "NFTA_SET_ELEM_LIST_TABLE": table.name,
            "NFTA_SET_ELEM_LIST_SET": name,
            "NFTA_SET_ELEM_LIST_ELEMENTS": b"".join(whole[first : first + _MOST_ELEMENTS]),
        }
        messages.append(_message(_ElementList, kind, table.family, flags, attributes))
    return messages


class _ElementList(nft_set_elem_list_msg):  # type: ignore[misc] # pyroute2 has no types
    """A list of elements that are bytes already: pyroute2 takes a quarter of a millisecond for each."""

    nla_map = (
        ("NFTA_SET_ELEM_LIST_UNSPEC", "none"),
        ("NFTA_SET_ELEM_LIST_TABLE", "asciiz"),
        ("NFTA_SET_ELEM_LIST_SET", "asciiz"),
        ("NFTA_SET_ELEM_LIST_ELEMENTS", "cdata"),
    )


def _expression(step: Expression) -> dict[str, Any]:
    if step.name == "verdict":
        code = _nest({f"NFTA_VERDICT_{key}".upper(): value for key, value in step.attributes.items()})
        name, data = (
            "immediate",
            {"NFTA_IMMEDIATE_DREG": 0, "NFTA_IMMEDIATE_DATA": _nest({"NFTA_DATA_VERDICT": code})},
        )
    else:
        name = step.name
        prefix = f"NFTA_{_SHORT_NAMES.get(name, name)}_"
        data = {f"{prefix}{key}".upper(): _value(value) for key, value in step.attributes.items()}
    return _nest({"NFTA_EXPR_NAME": name, "NFTA_EXPR_DATA": _nest(data)})


def _value(value: Value) -> Any:
    if isinstance(value, Expression):
        return _expression(value)
    return _nest({"NFTA_DATA_VALUE": value}) if isinstance(value, bytes) else value


def _nest(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"attrs": list(attributes.items())}


def _message(kind: Any, number: int, family: Family, flags: int, attributes: Mapping[str, Any]) -> Message:
    message = kind()
    message["attrs"] = list(attributes.items())
    message["header"]["type"] = NFNL_SUBSYS_NFTABLES << 8 | number
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | flags
    message["nfgen_family"] = int(family)
    return message


def batch_begin() -> Message:
    """What follows is one transaction."""
    return _edge(_BATCH_BEGIN)


def batch_end() -> Message:
    """The transaction is whole."""
    return _edge(_BATCH_END)


def _edge(kind: int) -> Message:
    message = nfgen_msg()
    message["res_id"] = NFNL_SUBSYS_NFTABLES
    message["header"]["type"] = kind
    message["header"]["flags"] = NLM_F_REQUEST
    return message
