"""Which VLANs a port of a LAN carries with their tags: as configurations, options and aliases write them.

Called by `lan_config`, which reads configurations, and by `lan_plan`. Pure.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeGuard

LARGEST_VLAN: Final = 4094
# An alias, in which a port remembers its trunk, has 255 letters; each VLAN is an element of the ports' table.
MOST_RANGES: Final = 10
MOST_VLANS: Final = 1024
_RANGE: Final = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")

# Ranges of VLANs, sorted and apart from each other.
Trunk = tuple[tuple[int, int], ...]


class TrunkError(ValueError):
    """What is written is no trunk: the text says why."""


def trunk_of_text(text: str) -> Trunk:
    """`10,20-30`. Raises TrunkError."""
    found = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise TrunkError(f"{part[:20]!r} is neither a VLAN nor a range such as 20-30")
        found.append((int(match[1]), int(match[2] or match[1])))
    return _check_ranges(found)


def trunk_of_document(value: Any) -> Trunk:
    """CNI's list of `{"id": 10}` and `{"minID": 20, "maxID": 30}`. Raises TrunkError."""
    if not isinstance(value, list):
        raise TrunkError("this is no list")
    return _check_ranges(_ranges_of(value))


def trunk_text(trunk: Trunk) -> str:
    """As `trunk_of_text` reads it."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in trunk)


def trunk_document(trunk: Trunk) -> list[dict[str, int]]:
    """As `trunk_of_document` reads it."""
    return [{"id": first} if first == last else {"minID": first, "maxID": last} for first, last in trunk]


def vlans_of(trunk: Trunk) -> Iterator[int]:
    """Each VLAN."""
    for first, last in trunk:
        yield from range(first, last + 1)


def _ranges_of(value: list[Any]) -> Iterator[tuple[int, int]]:
    for number, each in enumerate(value[: MOST_RANGES + 1]):
        if not isinstance(each, dict) or each.keys() - {"id", "minID", "maxID"} or not each:
            raise TrunkError(f"[{number}] has neither id nor minID and maxID")
        if "id" in each and len(each) > 1:
            raise TrunkError(f"[{number}] has id beside minID and maxID")
        first, last = (each.get("id", each.get(key)) for key in ("minID", "maxID"))
        if not _is_whole(first) or not _is_whole(last):
            raise TrunkError(f"[{number}] has neither id nor minID and maxID as whole numbers")
        yield first, last


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_ranges(ranges: Iterable[tuple[int, int]]) -> Trunk:
    found = sorted(ranges)
    for first, last in found:
        if not 1 <= first <= last <= LARGEST_VLAN:
            raise TrunkError(f"{first}-{last} is no range of VLANs, which are 1 to {LARGEST_VLAN}")
    for (_, last), (first, _) in itertools.pairwise(found):
        if first <= last:
            raise TrunkError(f"VLAN {first} is there twice")
    if len(found) > MOST_RANGES or sum(last - first + 1 for first, last in found) > MOST_VLANS:
        raise TrunkError(f"more than {MOST_RANGES} ranges or {MOST_VLANS} VLANs")
    return tuple(found)
