"""What makes the volumes of one box: the interface of every driver, and what drivers say and raise.

Implemented by the drivers beside it; called by `standalone/volumes`. A volume is named by the UID of its claim, so that
a claim of the same name, made later, never meets old data. A volume is whole or it is not there: drivers make it under
another name, have it on disk, and only then give it its own name. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

# The steps of making and removing a volume, in this order, at each of which a power cut may come. Tests end a driver
# at each of them.
STAGED: Final = "staged"
FILLED: Final = "filled"
SYNCED: Final = "synced"
NAMED: Final = "named"
PUT_AWAY: Final = "put away"
ERASED: Final = "erased"
MAKING_STEPS: Final = (STAGED, FILLED, SYNCED, NAMED)
REMOVING_STEPS: Final = (PUT_AWAY, ERASED)

# Before the UID of a VolumeSnapshot: what a driver calls the snapshot, which no volume is ever called.
SNAPSHOT_PREFIX: Final = "snapshot-"

# Where devices of volumes have a name that stays, whatever number the kernel gives them.
DEVICES: Final = Path("/dev/kvedge")
# Where file systems of volumes are mounted, a directory for each place.
MOUNTS: Final = Path("/run/kvedge/volumes")

Stepped = Callable[[str], None]


def ignore_step(step: str) -> None:
    """For callers that do not follow the steps."""


class VolumeDriverError(Exception):
    """A driver cannot do what it is asked; the text names place or volume and the remedy, `reason` is for an event."""

    def __init__(self, message: str, reason: str = "ProvisioningFailed") -> None:
        super().__init__(message)
        self.reason = reason


class PlaceMissing(VolumeDriverError):
    """The place is not there, or another disk is in its place: nothing may be written."""


class NewVolume(Struct, frozen=True):
    """What is to be made: the name, the size in bytes, and whether it is a device instead of a file system."""

    name: str
    size: int
    block: bool = False


class SnapshotFacts(Struct, frozen=True):
    """A snapshot: the size in bytes of its volume, whether that was a device, when, in ns since 1970, and where."""

    size: int
    block: bool
    taken: int
    path: Path


class VolumeUsage(Struct, frozen=True):
    """What a volume may hold and what it takes of its place, in bytes; `enforced` says whether it can hold more."""

    size: int
    used: int
    enforced: bool


class PlaceSpace(Struct, frozen=True):
    """The room of a place in bytes: in all, free for volumes, and taken by the disks of its volumes and snapshots.

    `snapshots` is the part of `held` that snapshots have, `index_percent` how full is what a pool writes about itself.
    """

    total: int
    free: int
    held: int
    snapshots: int = 0
    index_percent: int = 0


class VolumeDriver(Protocol):
    """Makes, grows, copies and removes the volumes of one place.

    Every method may be repeated after it was interrupted, and raises VolumeDriverError, PlaceMissing among them, when
    it cannot. All sizes are in bytes.
    """

    @property
    def where(self) -> str:
        """The place in words."""

    def prepare(self) -> None:
        """See that the place is there and the same as before, and finish what was interrupted."""

    def make(self, volume: NewVolume) -> None:
        """Make an empty volume; a present volume is left as it is."""

    def grow(self, name: str, size: int) -> None:
        """Let a volume hold so much; never less than before."""

    def clone(self, source: str, volume: NewVolume, keep_on: Callable[[], None]) -> None:
        """Make a volume with the content of another one of this place.

        `keep_on` is called again and again, the last time just before the volume counts, and raises to give it up.
        """

    def room_for(self, size: int, *, block: bool) -> int:
        """What a volume of that size may take of its place at the most."""

    def takes_all_at_once(self) -> bool:
        """Whether the snapshot of any volume here is of one moment, whatever it holds, and takes no room at first."""

    def shares_blocks(self) -> bool:
        """Whether a clone shares its source's blocks: made at once, and of one moment even while a guest writes."""

    def snapshot(self, name: str, snapshot: str, keep_on: Callable[[], None], *, at_once: bool) -> None:
        """Keep the present content of a volume under another name, from which it can be cloned; one there is left.

        With `at_once` it is of one moment even while a guest writes, or fails. `keep_on` is that of :meth:`clone`.
        """

    def snapshots_at_once(self, name: str) -> bool:
        """Whether a snapshot of this volume can be of one moment while a guest writes it."""

    def snapshot_facts(self, snapshot: str) -> SnapshotFacts:
        """What a snapshot that is there was taken of, and when."""

    def remove(self, name: str) -> None:
        """Take a volume away: it is out of the way at once, its content goes in the background."""

    def usage(self, name: str) -> VolumeUsage:
        """What a volume holds."""

    def describe(self, name: str) -> tuple[int, bool]:
        """How large a volume may become, and whether it is a device."""

    def path(self, name: str, *, block: bool) -> Path:
        """Where a volume is once it is attached."""

    def attach(self, name: str) -> Path:
        """Make a volume usable on this host; its directory or its device."""

    def detach(self, name: str) -> None:
        """Take back what :meth:`attach` made besides the volume itself."""

    def names(self) -> Collection[str]:
        """The volumes that are whole."""

    def space(self) -> PlaceSpace:
        """The room of the place."""

    def write_note(self, name: str, content: bytes) -> None:
        """Keep a note beside the volumes, durably; one that is there and says so is left."""

    def drop_note(self, name: str) -> None:
        """Remove a note, if it is there."""

    def notes(self) -> Iterator[tuple[str, bytes, float]]:
        """All notes, each with when it was written."""
