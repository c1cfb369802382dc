"""Whether a place for volumes is the one that it was: a disk that is not mounted, or another disk, is found out.

A place bears an identity in a file, which is also remembered on the box. Called by drivers before they write. Touches
the file `.kvedge-place` of a place, and what the box remembers.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.runtime.durable_files import write_durably
from kvedge.storage.volumes.volume_driver import PlaceMissing

IDENTITY_FILE: Final = ".kvedge-place"
# Where a box remembers its places, below its state.
PLACES_MEMORY: Final = "volume-places"


class PlaceIdentity(Struct, frozen=True):
    """The place at `path`, and the file of the box that remembers which one it is.

    `made_here` says that kvedge may make the directory itself; the administrator makes a mount point.
    """

    path: Path
    memory: Path
    made_here: bool = False

    def check(self) -> None:
        """Return when the place is there and the same as ever; a place that was never used is marked.

        Raises:
            PlaceMissing: it is not there, or not the same.
            OSError: as the file systems have it.
        """
        remembered, found = _read(self.memory), self._find()
        if remembered and found == remembered:
            return
        if remembered:
            what = "another disk is mounted there" if found else "its disk is not mounted"
            raise PlaceMissing(
                f"{self.path} is not the place that holds the volumes: {what}. Mount the right disk; or, if the "
                f"volumes on it are lost for good, remove {self.memory}",
                "PlaceMissing",
            )
        if not found:
            found = str(uuid.uuid4())
            # On the volume first: the note of it elsewhere must be true.
            write_durably(self.path / IDENTITY_FILE, json.dumps({"place": found}).encode() + b"\n", mode=0o644)
        self.memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(self.memory, json.dumps({"place": found}).encode() + b"\n")

    def is_remembered(self) -> bool:
        """Whether the place has been used by this box. Writes nothing."""
        return self.memory.exists()

    def trouble(self) -> str:
        """Why a place that has been used is not to be touched; empty when it is the one it was. Writes nothing."""
        try:
            remembered, found = _read(self.memory), _read(self.path / IDENTITY_FILE)
        except PlaceMissing as error:
            return str(error)
        except OSError as error:
            return f"it cannot be looked at: {error.strerror}"
        if found == remembered:
            return ""
        return "another disk is mounted there" if found else "its disk is not mounted"

    def _find(self) -> str:
        if not self.path.is_dir():
            if not self.made_here or self.memory.exists():
                raise PlaceMissing(
                    f"the place for volumes {self.path} is not a directory: mount its disk, or make it", "PlaceMissing"
                )
            self.path.mkdir(mode=0o711, parents=True)
        return _read(self.path / IDENTITY_FILE)


def _read(path: Path) -> str:
    try:
        known = json.loads(path.read_bytes())
    except FileNotFoundError:
        return ""
    except (ValueError, IsADirectoryError) as error:
        raise _damage(path) from error
    found = known.get("place") if isinstance(known, dict) else None
    if not isinstance(found, str) or not found:
        raise _damage(path)
    return found


def _damage(path: Path) -> PlaceMissing:
    return PlaceMissing(
        f"{path} is damaged: it should say which place this is. Restore it from the other one of the pair, or remove it"
        " if no volume lies there",
        "PlaceMissing",
    )
