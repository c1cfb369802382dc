"""The volumes of claims on this host, in the data directory and on other disks: what nothing else has a copy of.

Called by `kvedge uninstall --purge`, which asks before it removes them, and by `kvedge state backup`, which says what
it does not hold. Only a volume and kvedge's notes on it are touched: a place may be a disk with other things on it.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Final

from kvedge.runtime.linux.loop_devices import detach_loop, loop_of
from kvedge.runtime.settings import Settings
from kvedge.storage.volumes.directory_driver import BLOCK_FILE, OWN_ENTRIES
from kvedge.storage.volumes.place_identity import IDENTITY_FILE
from kvedge.storage.volumes.tree_copy import erase_tree

# The place in a data directory.
VOLUMES: Final = "volumes"
# A volume is called after the UID of its claim.
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def places_of(settings: Settings) -> list[Path]:
    """Where a box keeps volumes: the place in its data directory, and those of the setting volume-places."""
    return [settings.data_path / VOLUMES, *settings.places_of_volumes.values()]


def volumes_in(place: Path) -> list[Path]:
    """The volumes in a place, which need not be there; a disk that is not mounted has none."""
    return sorted(path for path in place.iterdir() if _UID.fullmatch(path.name)) if _is_place(place) else []


def purge_volumes(place: Path) -> None:
    """Remove the volumes in a place, with what kvedge noted of them; the place goes when nothing else is in it.

    Raises:
        OSError: as the file system has it.
    """
    if not _is_place(place):
        return
    for path in volumes_in(place):
        file = path / BLOCK_FILE
        device = loop_of(file) if file.is_file() else None
        if device is not None:
            detach_loop(device)
        erase_tree(path)
    for path in [path for pattern in OWN_ENTRIES for path in place.glob(pattern)]:
        erase_tree(path)
    (place / IDENTITY_FILE).unlink(missing_ok=True)
    # A mount point, or one with something else in it, stays.
    with contextlib.suppress(OSError):
        place.rmdir()


def _is_place(path: Path) -> bool:
    # The one in the data directory may be older than its mark.
    return (path / IDENTITY_FILE).is_file() or (path.name == VOLUMES and path.is_dir())
