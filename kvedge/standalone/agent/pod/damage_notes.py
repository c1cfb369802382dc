"""What the Node says of files below the data directory that were damaged.

Made by the node agent; asked by the node loop. Reads directories only, and not at each question.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge.runtime.clock import Clock
from kvedge.runtime.damaged_files import find_damaged_files

# Where small files lie, and how many levels of directories below.
_PLACES: Final = (("", 0), ("state", 2), ("images", 2), ("kubelet/pods", 1), ("kubelet/lost", 1))
_LOOK_SECONDS: Final = 60.0
# The message of a condition is read by people.
_MOST_NAMED: Final = 3


class DamageNotes:
    """Tells of damaged files: those that were put aside, and what was done about a Pod's record."""

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        self._data_dir = data_dir
        self._clock = clock
        self._told: list[str] = []
        self._found: list[Path] = []
        self._looked_at: float | None = None

    def tell(self, text: str) -> None:
        """Have the Node say so until the next start."""
        self._told.append(text)
        self._looked_at = None

    def notes(self) -> list[str]:
        """For the Node's condition Ready."""
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= _LOOK_SECONDS:
            self._found, self._looked_at = list(put_aside_below(self._data_dir)), now
        return [*self._told[:_MOST_NAMED], *_name_files(self._found)]


def put_aside_below(data_dir: Path) -> Iterator[Path]:
    """The damaged files of a data directory."""
    for place, depth in _PLACES:
        yield from find_damaged_files(data_dir / place, depth)


def _name_files(found: list[Path]) -> Iterator[str]:
    if not found:
        return
    names = ", ".join(str(path) for path in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    yield f"damaged files were put aside, remove them once nothing in them is needed: {names}{more}"
