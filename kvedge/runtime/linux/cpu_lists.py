"""Lists of CPUs as Linux and libvirt write them: `0-3,7`; in a mask of KubeVirt's also `0-3,^1`.

Used by the roles, by launchers and by the settings. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# As many as the kernel can be built for.
MOST_CPUS: Final = 8192
_LONGEST: Final = 4096
_PART: Final = re.compile(r"(\^?)([0-9]{1,4})(?:-([0-9]{1,4}))?")


class CpuListError(ValueError):
    """A text is no list of CPUs; the message says why."""


def parse_cpu_list(text: str, *, may_exclude: bool = False) -> frozenset[int]:
    """The CPUs of a list; none of an empty one. With `may_exclude`, `^` takes CPUs out of those named before it.

    Raises:
        CpuListError: when it is none.
    """
    if len(text) > _LONGEST:
        raise CpuListError(f"a list of CPUs has at most {_LONGEST} characters")
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        match = _PART.fullmatch(part.strip())
        if match is None or (match[1] and not may_exclude):
            raise CpuListError(f"{part.strip()!r} is neither a CPU nor a range of them, such as 0-3")
        first, last = int(match[2]), int(match[3] or match[2])
        if last < first or last >= MOST_CPUS:
            raise CpuListError(f"{part.strip()!r} is no range of CPUs below {MOST_CPUS}")
        numbers = range(first, last + 1)
        if match[1]:
            found.difference_update(numbers)
        else:
            found.update(numbers)
    return frozenset(found)


def cpu_list_text(numbers: Iterable[int]) -> str:
    """The shortest list of these CPUs."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
