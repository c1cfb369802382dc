"""The volumes of claims on this host, in the data directory and on other disks: what nothing else has a copy of.

Called by `kvedge uninstall --purge`, which asks before it removes them, and by `kvedge state backup`, which says what
it does not hold. Only a volume and kvedge's notes on it are touched: a place may be a disk with other things on it.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.runtime.linux.loop_devices import detach_loop, loop_of
from kvedge.runtime.settings import Settings
from kvedge.storage.volumes.directory_driver import BLOCK_FILE, OWN_ENTRIES
from kvedge.storage.volumes.place_identity import IDENTITY_FILE, PLACES_MEMORY, PlaceIdentity
from kvedge.storage.volumes.thin_driver import ThinDriver, thin_place
from kvedge.storage.volumes.thin_identity import ThinIdentity
from kvedge.storage.volumes.thin_volumes import NOTES_VOLUME, lv_name
from kvedge.storage.volumes.tree_copy import erase_tree
from kvedge.storage.volumes.volume_driver import SNAPSHOT_PREFIX, VolumeDriverError

# The place in a data directory.
VOLUMES: Final = "volumes"
# A volume is called after the UID of its claim, a snapshot of one after that of its VolumeSnapshot.
_UID: Final = re.compile(rf"({SNAPSHOT_PREFIX})?[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}")


class VolumePlace(Struct, frozen=True):
    """A place of this box; `is_own` is that in its data directory, which nobody else makes or uses."""

    identity: PlaceIdentity
    is_own: bool = False

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.identity.path

    def trouble(self) -> str:
        """Why it cannot be looked at: another disk, or none, is there. Empty where no volume of this box can be."""
        return "" if self.is_own or not self.identity.is_remembered() else self.identity.trouble()

    @property
    def _is_ours(self) -> bool:
        return self.is_own or (self.identity.is_remembered() and not self.identity.trouble())

    def volumes(self) -> list[Path]:
        """The volumes in it, and their snapshots; none where there is trouble, or where this box has never made one.

        Raises:
            OSError: as the file system has it.
        """
        if not self._is_ours or not self.path.is_dir():
            return []
        return sorted(path for path in self.path.iterdir() if _UID.fullmatch(path.name))

    def purge(self) -> None:
        """Remove all of them, with what kvedge noted of them. A directory that the administrator has made stays.

        Raises:
            OSError: as the file system has it.
        """
        if not self._is_ours:
            return
        for path in self.volumes():
            file = path / BLOCK_FILE
            device = loop_of(file) if file.is_file() else None
            if device is not None:
                detach_loop(device)
            erase_tree(path)
        for path in [path for pattern in OWN_ENTRIES for path in self.path.glob(pattern)]:
            erase_tree(path)
        (self.path / IDENTITY_FILE).unlink(missing_ok=True)
        if self.is_own:
            # One in which something else lies stays.
            with contextlib.suppress(OSError):
                self.path.rmdir()


def own_place(data_dir: Path) -> VolumePlace:
    """The place in a data directory."""
    return VolumePlace(
        PlaceIdentity(data_dir / VOLUMES, data_dir / VOLUMES / IDENTITY_FILE, made_here=True), is_own=True
    )


@dataclass(frozen=True, slots=True, eq=False)
class ThinPlace:
    """A place of this box that is a thin pool of LVM; what is not ours in it, and the pool itself, stay."""

    driver: ThinDriver

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path("/dev", self.driver.identity.where)

    def trouble(self) -> str:
        """Why it cannot be looked at. Empty where no volume of this box can be."""
        try:
            self.volumes()
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def volumes(self) -> list[Path]:
        """The volumes in it, and their snapshots.

        Raises:
            OSError: they cannot be had.
        """
        if not self.driver.identity.is_remembered():
            return []
        with _translate_errors():
            return sorted(Path("/dev", self.driver.identity.group, lv_name(name)) for name in self.driver.names())

    def purge(self) -> None:
        """Remove all of them, with what kvedge noted of them.

        Raises:
            OSError: one is in use.
        """
        if not self.driver.identity.is_remembered():
            return
        with _translate_errors():
            for name in (*self.driver.names(), NOTES_VOLUME):
                self.driver.remove(name)


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except VolumeDriverError as error:
        raise OSError(errno.EIO, str(error)) from error


def places_of(settings: Settings) -> list[VolumePlace | ThinPlace]:
    """Where a box keeps volumes: the place in its data directory, and those of the setting volume-places."""
    memory = settings.state_path / PLACES_MEMORY
    others = [VolumePlace(PlaceIdentity(path, memory / name)) for name, path in settings.places_of_volumes.items()]
    pools = settings.thin_pools_of_volumes.items()
    thin = [ThinPlace(thin_place(name, ThinIdentity(*where, memory / name))) for name, where in pools]
    return [own_place(settings.data_path), *others, *thin]
