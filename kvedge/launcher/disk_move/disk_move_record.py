"""What must outlast a launcher of disks that move to other claims: which, how far, and whether a user had paused it.

Written by `disk_mover`, below the directory of the run. A QEMU that has ended needs none of it: the VMI and the words
beside the images say all. So nothing is synced to disk.
"""

from __future__ import annotations

import contextlib
import json
from typing import Final, NamedTuple

from kvedge.launcher.disk_move.disk_move_plan import Stage
from kvedge.launcher.launcher_files import replace_json

_LONGEST: Final = 256 << 10


class MovingDisk(NamedTuple):
    """A disk of the domain by its volume, with its target; the claims, and the path of the copy."""

    volume: str
    target: str
    source_claim: str
    claim: str
    place: str
    path: str
    block: bool = False
    bytes: int = 0


class MoveRecord(NamedTuple):
    """One move; `held` says that a user had paused the guest. Times are in milliseconds since 1970.

    `stayed` are the volumes that QEMU did not exchange; None before it was asked to, or while that is not known.
    """

    id: str = ""
    stage: Stage = Stage.NONE
    disks: tuple[MovingDisk, ...] = ()
    held: bool = False
    message: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    stayed: tuple[str, ...] | None = None


class MoveStore:
    """The record of one run in one Pod."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/disk-move.json"

    def read(self) -> MoveRecord:
        """The last move; one that cannot be read is none."""
        with (
            contextlib.suppress(FileNotFoundError, ValueError, LookupError, TypeError, AttributeError),
            open(self._path) as file,
        ):
            found = json.loads(file.read(_LONGEST))
            disks = tuple(MovingDisk(**each) for each in found.pop("disks"))
            stayed = found.pop("stayed", None)
            stayed = None if stayed is None else tuple(map(str, stayed))
            return MoveRecord(**{**found, "stage": Stage(found["stage"]), "disks": disks, "stayed": stayed})
        return MoveRecord()

    def keep(self, record: MoveRecord) -> None:
        """Remember it. Raises OSError."""
        disks = [disk._asdict() for disk in record.disks]
        replace_json(self._path, {**record._asdict(), "stage": record.stage.value, "disks": disks})
