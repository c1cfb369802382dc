"""Sets of IPv4 addresses as sorted ranges that are apart from each other. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Final

# First and last.
Range = tuple[int, int]
Ranges = tuple[Range, ...]

EVERYWHERE: Final[Ranges] = ((0, (1 << 32) - 1),)


def joined(ranges: Iterable[Range]) -> Ranges:
    """All that is in any of these."""
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
    for first, last in joined(holes):
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


def range_of(text: str) -> Range:
    """A network's first and last address; ValueError where the text names none of IPv4."""
    network = IPv4Network(text, strict=False)
    return int(network.network_address), int(network.broadcast_address)
