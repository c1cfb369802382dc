"""Sets of addresses as sorted ranges that are apart from each other. Pure.

Addresses of both versions lie on one line of numbers: those of IPv6 behind all of IPv4.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network
from typing import Final

# First and last.
Range = tuple[int, int]
Ranges = tuple[Range, ...]

# Where the addresses of each version begin, and how many bits these have.
_FIRST: Final = {4: 0, 6: 1 << 128}
_BITS: Final = {4: 32, 6: 128}
EVERYWHERE: Final[Ranges] = tuple((_FIRST[each], _FIRST[each] + (1 << _BITS[each]) - 1) for each in (4, 6))


def join_ranges(ranges: Iterable[Range]) -> Ranges:
    """Join ranges that touch or overlap."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def without(whole: Range, holes: Iterable[Range]) -> Ranges:
    """What of a range is in none of these."""
    following, end = whole
    found: list[Range] = []
    for first, last in join_ranges(holes):
        if first > following:
            found.append((following, min(first - 1, end)))
        following = max(following, last + 1)
        if following > end:
            break
    if following <= end:
        found.append((following, end))
    return tuple(found)


def contains(ranges: Ranges, address: int) -> bool:
    """Whether an address is in one of these, which are sorted and apart."""
    at = bisect.bisect(ranges, address, key=lambda each: each[0])
    return at > 0 and address <= ranges[at - 1][1]


def number_of(address: str) -> int:
    """Where an address lies; ValueError for a text that is none."""
    found = ip_address(address)
    return _FIRST[found.version] + int(found)


def range_of(text: str) -> Range:
    """A network's first and last address; ValueError where the text names none."""
    network = ip_network(text, strict=False)
    begin = _FIRST[network.version]
    return begin + int(network.network_address), begin + int(network.broadcast_address)


def of_version(ranges: Ranges, version: int) -> Iterator[Range]:
    """Those of one version of IP, as its addresses are in packets. No range has addresses of both."""
    begin, end = _FIRST[version], _FIRST[version] + (1 << _BITS[version])
    return ((first - begin, last - begin) for first, last in ranges if begin <= first < end)
