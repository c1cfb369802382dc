"""Elements of nftables sets as the bytes that the kernel reads. Pure; used by `nft_edge` for sets with many of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kvedge.network.nft.nft_tables import Set

# The kernel's numbers of attributes, and the bit of one that has attributes inside.
_NESTED: Final = 1 << 15
_LIST_ELEMENT, _DATA_VALUE = 1, 1
_ELEMENT_KEY, _ELEMENT_DATA, _ELEMENT_FLAGS = 1, 2, 3
# The flag of an element that ends a range.
_INTERVAL_END: Final = struct.pack("!I", 1)


def element_parts(element: bytes, known: Set, *, data: bool) -> Iterator[bytes]:
    """One element of a list, with what it leads to where `data` is wanted; a range is two, one for each end."""
    length = known.key_length
    whole = _nest(_ELEMENT_KEY, _attribute(_DATA_VALUE, element[:length]))
    if known.data and data:
        behind = element[2 * length :] if known.ranges else element[length:]
        whole += _nest(_ELEMENT_DATA, _attribute(_DATA_VALUE, behind))
    yield _nest(_LIST_ELEMENT, whole)
    if known.ranges:
        end = _nest(_ELEMENT_KEY, _attribute(_DATA_VALUE, element[length : 2 * length]))
        yield _nest(_LIST_ELEMENT, end + _attribute(_ELEMENT_FLAGS, _INTERVAL_END))


def _nest(kind: int, inside: bytes) -> bytes:
    return _attribute(kind | _NESTED, inside)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value.ljust(-(-len(value) // 4) * 4, b"\0")
