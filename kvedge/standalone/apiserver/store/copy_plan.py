"""Which copies of the object store there are, by their names, and which of them are kept. Pure.

Used by `object_store_copies`. A name tells the state (the revision), the moment and the program's version:
`kvedge-20260102T030405Z-r1234-0.1.0.db`. The revision says which copy is newer; the clock of a box may have been wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Struct

# The last day in steps of the schedule, then the last one of each of a week's days.
KEPT_NEWEST: Final = 6
KEPT_DAYS: Final = 7
# However full the disk is: one of them may be no good.
ALWAYS_KEPT: Final = 2
_NAME: Final = re.compile(r"kvedge-(?P<moment>(?P<day>\d{8})T\d{6}Z)-r(?P<revision>\d{1,19})-(?P<version>[\w.+-]+)\.db")


class StoreCopy(Struct, frozen=True):
    """One copy; `moment` and `day` are in UTC, as the name has them."""

    name: str
    moment: str
    day: str
    revision: int
    version: str


def copy_name(moment: datetime, revision: int, version: str) -> str:
    """The name of a copy that is made now; `moment` is in UTC."""
    return f"kvedge-{moment:%Y%m%dT%H%M%SZ}-r{revision}-{version}.db"


def copies_of(names: Iterable[str]) -> list[StoreCopy]:
    """The copies among these names, newest state first; anything else is not ours."""
    found = [match for name in names if (match := _NAME.fullmatch(name))]
    copies = [StoreCopy(item[0], item["moment"], item["day"], int(item["revision"]), item["version"]) for item in found]
    return sorted(copies, key=lambda copy: (copy.revision, copy.moment), reverse=True)


def superfluous(copies: list[StoreCopy], version: str) -> list[StoreCopy]:
    """The copies that need not be kept, of all copies, newest first.

    Kept are the newest, the last one of each of the last days that have any, and the first one that this version made:
    what the store was before this version wrote to it.
    """
    kept = set(copies[:KEPT_NEWEST])
    days: dict[str, StoreCopy] = {}
    for copy in copies:
        days.setdefault(copy.day, copy)
    kept.update([*days.values()][:KEPT_DAYS])
    kept.update([copy for copy in copies if copy.version == version][-1:])
    return [copy for copy in copies if copy not in kept]


def crowding(kept: list[tuple[StoreCopy, int]], free: int) -> list[StoreCopy]:
    """The oldest copies, as long as all of them take more room than the disk has left; the newest always stay.

    Args:
        kept: the copies with their sizes in bytes, newest first.
        free: what the disk has left, in bytes.
    """
    total, gone = sum(size for _, size in kept), list[StoreCopy]()
    for copy, size in reversed(kept[ALWAYS_KEPT:]):
        if total <= free:
            break
        gone.append(copy)
        total -= size
        free += size
    return gone


def is_due(copies: list[StoreCopy], revision: int) -> bool:
    """Whether anything was written since the newest copy."""
    return not copies or copies[0].revision != revision
