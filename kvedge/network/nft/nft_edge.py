"""The door to nftables, by netlink: puts a table of ours into the kernel, all of it or nothing, and takes it away.

Called inside the network namespace concerned (`netns.run_in_netns`). Touches only the table it is given: other
tables, of whomever, are only ever listed.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nftsocket import (
    NFT_MSG_GETCHAIN,
    NFT_MSG_GETRULE,
    NFT_MSG_GETSET,
    NFT_MSG_GETSETELEM,
    NFT_MSG_GETTABLE,
    AsyncNFTSocket,
    nft_chain_msg,
    nft_rule_msg,
    nft_set_elem_list_msg,
    nft_set_msg,
    nft_table_msg,
)

from kvedge.network.drop_rules import Dropped
from kvedge.network.errors import NetworkError, NotSupportedError
from kvedge.network.netlink_dump import whole_dump
from kvedge.network.nft.nft_messages import (
    Message,
    batch_begin,
    batch_end,
    change_messages,
    contents_of,
    drop_table,
    new_table,
    remove_table,
    renew_table,
)
from kvedge.network.nft.nft_tables import Family, Hook, Table

# A transaction is one packet to the kernel; root may send longer ones than the host's net.core.wmem_max says. The
# kernel counts the double of it.
SO_SNDBUFFORCE: Final = 32
MOST_BYTES: Final = 32 << 20
# What the kernel says of a family or an expression that it was built without.
NOT_SUPPORTED: Final = (errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT)


class ForeignChain(Struct, frozen=True):
    """A base chain of somebody else, as far as it matters to us: where it is called, what for (`filter`, `nat` …) and
    whether it drops by policy."""

    family: int
    table: str
    name: str
    hook: int
    type: str
    drops: bool


def list_tables(family: Family, prefix: str = "") -> list[str]:
    """Names of the tables of that family that begin so."""
    found = _dump(nft_table_msg, NFT_MSG_GETTABLE, family)
    return sorted(
        name for name in (message.get_attr("NFTA_TABLE_NAME") for message in found) if name.startswith(prefix)
    )


def table_handle(family: Family, name: str) -> int | None:
    """The kernel's number of a table, which one that is made anew does not have again; None when there is none."""
    for message in _dump(nft_table_msg, NFT_MSG_GETTABLE, family):
        if message.get_attr("NFTA_TABLE_NAME") == name:
            return int(message.get_attr("NFTA_TABLE_HANDLE"))
    return None


def list_base_chains(family: Family, hook: Hook) -> list[ForeignChain]:
    """All base chains at that hook."""
    chains = []
    for message in _dump(nft_chain_msg, NFT_MSG_GETCHAIN, family):
        where = message.get_attr("NFTA_CHAIN_HOOK")
        if where is not None and where.get_attr("NFTA_HOOK_HOOKNUM") == hook:
            policy = message.get_attr("NFTA_CHAIN_POLICY")
            table, name = message.get_attr("NFTA_CHAIN_TABLE"), message.get_attr("NFTA_CHAIN_NAME")
            kind = message.get_attr("NFTA_CHAIN_TYPE")
            chains.append(ForeignChain(int(family), table, name, int(hook), kind, policy == 0))
    return chains


def list_rules(family: Family) -> list[tuple[str, list[Message]]]:
    """All rules of that family: the table of each, and its expressions as pyroute2 has them."""
    found = _dump(nft_rule_msg, NFT_MSG_GETRULE, family)
    return [(each.get_attr("NFTA_RULE_TABLE"), each.get_attr("NFTA_RULE_EXPRESSIONS") or []) for each in found]


def list_counts(family: Family, name: str) -> dict[str, list[tuple[bytes, Dropped]]]:
    """What the elements of the sets of that name have counted, by the tables that have one."""
    sets = _dump(nft_set_msg, NFT_MSG_GETSET, family)
    tables = [each.get_attr("NFTA_SET_TABLE") for each in sets if each.get_attr("NFTA_SET_NAME") == name]
    return {table: list(_read_counted_elements(family, table, name)) for table in tables}


def _read_counted_elements(family: Family, table: str, name: str) -> Iterator[tuple[bytes, Dropped]]:
    only = {"NFTA_SET_ELEM_LIST_TABLE": table, "NFTA_SET_ELEM_LIST_SET": name}
    try:
        found = _dump(nft_set_elem_list_msg, NFT_MSG_GETSETELEM, family, only)
    except NetworkError as error:
        if error.errno != errno.ENOENT:
            raise
        # The table has gone meanwhile.
        return
    for message in found:
        for element in message.get_attr("NFTA_SET_ELEM_LIST_ELEMENTS") or ():
            expression = element.get_attr("NFTA_SET_ELEM_EXPR")
            counter = expression.get_attr("NFTA_EXPR_DATA") if expression is not None else None
            if counter is not None:
                key = element.get_attr("NFTA_SET_ELEM_KEY").get_attr("NFTA_DATA_VALUE")
                packets, size = (int(counter.get_attr(f"NFTA_COUNTER_{what}") or 0) for what in ("PACKETS", "BYTES"))
                yield bytes(key), Dropped(packets, size)


def is_whole(table: Table) -> bool:
    """Whether the table is there with its sets and as many rules in its chains as it should have; the sets' keys are
    not looked at."""
    if table.name not in list_tables(table.family, table.name):
        return False
    sets = _dump(nft_set_msg, NFT_MSG_GETSET, table.family, {"NFTA_SET_TABLE": table.name})
    rules = _dump(nft_rule_msg, NFT_MSG_GETRULE, table.family, {"NFTA_RULE_TABLE": table.name})
    names = {each.get_attr("NFTA_SET_NAME") for each in sets if each.get_attr("NFTA_SET_TABLE") == table.name}
    chains = [each.get_attr("NFTA_RULE_CHAIN") for each in rules if each.get_attr("NFTA_RULE_TABLE") == table.name]
    has_rules = all(chains.count(chain.name) == len(chain.rules) for chain in table.chains)
    return has_rules and names >= {each.name for each in table.sets}


def replace_table(table: Table, elements: Mapping[str, Iterable[bytes]], instead_of: Iterable[str] = ()) -> None:
    """Makes the table be as given, with these keys in its sets, in one transaction: no moment is without rules.

    `instead_of` names earlier tables of ours of its family, which go in the same transaction.
    """
    # The transaction makes a table before it removes it: a table that is gone by now does not fail the whole.
    earlier = [message for name in instead_of for message in remove_table(Table(table.family, name, ()))]
    _replace(table, [*renew_table(table), *earlier, *contents_of(table, elements)])


def replace_tables(tables: Iterable[tuple[Table, Mapping[str, Iterable[bytes]]]]) -> None:
    """As :func:`replace_table`, for several tables that belong together, of whatever families: all at once."""
    whole = list(tables)
    _replace(whole[0][0], [each for table, keys in whole for each in (*renew_table(table), *contents_of(table, keys))])


def _replace(table: Table, messages: list[Message]) -> None:
    try:
        _commit(table.family, table.name, messages)
    except NetworkError as error:
        # The table itself has all sets and chains that its rules name, so ENOENT means that the kernel lacks an
        # expression.
        if error.errno == errno.ENOENT:
            raise _not_supported_error("cannot change nftables table", table.name, errno.ENOENT) from error
        raise


def delete_tables(tables: Iterable[Table]) -> None:
    """Removes these tables at once, whether they are there or not."""
    whole = list(tables)
    _commit(whole[0].family, whole[0].name, [message for table in whole for message in remove_table(table)])


def ensure_table(table: Table) -> None:
    """Makes the table unless one of its name is there (a name stands for its contents); cheaper than to replace it."""
    if table.name not in list_tables(table.family, table.name):
        _commit(table.family, table.name, [new_table(table), *contents_of(table, {})])


def delete_table(family: Family, name: str) -> None:
    """Removes the table; nothing when it is gone already."""
    table = Table(family, name, ())
    try:
        _commit(family, name, [drop_table(table)])
    except NetworkError as error:
        # A kernel that cannot have such a table has none of ours.
        if error.errno not in (errno.ENOENT, *NOT_SUPPORTED):
            raise


def change_elements(table: Table, add: Mapping[str, Iterable[bytes]], remove: Mapping[str, Iterable[bytes]]) -> None:
    """Adds keys to sets of a table and removes others, in one transaction; adding a present key changes nothing.

    A key to remove that is not there is made first and so removed: the whole stays one transaction that cannot fail
    for it.
    """
    change_tables([(table, add, remove)])


def change_tables(
    changes: Iterable[tuple[Table, Mapping[str, Iterable[bytes]], Mapping[str, Iterable[bytes]]]],
) -> None:
    """As :func:`change_elements`, for several tables: what to add to each, and what to remove from it."""
    whole = list(changes)
    messages = [message for change in whole for message in change_messages(*change)]
    if messages:
        _commit(whole[0][0].family, whole[0][0].name, messages)


def _commit(family: Family, subject: str, messages: Iterable[Message]) -> None:
    async def send() -> None:
        async with AsyncNFTSocket(nfgen_family=int(family)) as opened:
            opened.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, MOST_BYTES)
            async for _ in opened.nlm_request_batch([batch_begin(), *messages, batch_end()]):
                pass

    try:
        asyncio.run(send())
    except NetlinkError as error:
        raise _translate_refusal("cannot change nftables table", subject, error.code) from error
    except OSError as error:
        raise _translate_refusal("cannot reach nftables", subject, error.errno or 0) from error


def _dump(kind: Any, number: int, family: Family, only: Mapping[str, Any] | None = None) -> list[Message]:
    async def ask() -> list[Message]:
        question = kind()
        question["attrs"] = list((only or {}).items())
        async with AsyncNFTSocket(nfgen_family=int(family)) as opened:
            return [message async for message in await opened.request_get(question, number)]

    try:
        return whole_dump(lambda: asyncio.run(ask()))
    except NetlinkError as error:
        raise _translate_refusal("cannot list nftables tables", family.name.lower(), error.code) from error
    except OSError as error:
        raise _translate_refusal("cannot reach nftables", family.name.lower(), error.errno or 0) from error


def _translate_refusal(doing: str, subject: str, code: int) -> NetworkError:
    if code not in NOT_SUPPORTED:
        return NetworkError(doing, subject=subject, errno=code)
    return _not_supported_error(doing, subject, code)


def _not_supported_error(doing: str, subject: str, code: int) -> NotSupportedError:
    remedy = (
        "this kernel needs CONFIG_NF_TABLES with its families ip, inet and bridge, NFT_NAT, NFT_MASQ, NFT_CT, "
        "NFT_CONNLIMIT and NFT_LIMIT"
    )
    return NotSupportedError(doing, subject=subject, errno=code, remedy=remedy)
