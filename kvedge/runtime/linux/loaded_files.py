"""The files that this process has loaded code from: whether they are still the ones that lie there.

Asked by the parent of warm launchers before each child: an upgrade of kvedge, Python or libvirt has replaced files that
a child would load the rest from. Reads /proc/self/maps and looks at the files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

_MAPS: Final = "/proc/self/maps"


class LoadedFiles:
    """Those of the moment at which this is made: libraries, the program itself, and Python's modules."""

    def __init__(self) -> None:
        self._known = {path: _identify(path) for path in {*_find_mapped(), *_find_modules()}}

    def find_changed(self) -> str:
        """One that is gone or another one by now; empty when all are as they were."""
        return next((path for path, known in self._known.items() if known is None or _identify(path) != known), "")


def _find_mapped() -> Iterator[str]:
    with open(_MAPS, encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(maxsplit=5)
            # Code only: of a file that was deleted already the path says so, and nothing lies there.
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                yield fields[5]


def _find_modules() -> Iterator[str]:
    for module in list(sys.modules.values()):
        if path := getattr(module, "__file__", None):
            yield path


def _identify(path: str) -> tuple[int, int, int, int] | None:
    """Its device, number, size and time of change; None when it is not there."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns
