"""What must outlast a launcher of a copy of its guest's disks: which one it was, and how far it had come.

Written by `disk_copies` below the directory of the run. The Pod is gone after a power cut, so nothing is synced to
disk.
"""

from __future__ import annotations

import contextlib
import json
from typing import Final, NamedTuple

from kvedge.launcher.launcher_files import replace_json

_LONGEST: Final = 16 << 10


class CopyRecord(NamedTuple):
    """One copy: `started_ms` is its moment (0: still to come), `ended_ms` when it was over (0: it goes on).

    `complete` says that all of it is on stable storage, `quiesce` how the guest was held still, and `froze` that the
    copy may have frozen it, for `frozen_ms`. `disks` are volume, target and whether that is a device, of each;
    `adopted` counts the launchers that have gone on with it. `memory` is the volume that the guest's memory goes into,
    `held` that the guest stands for that and is to go on, `stood_ms` for how long it did. `state` is the volume that
    the state of its TPM and UEFI firmware goes into.
    """

    id: str = ""
    complete: bool = False
    message: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    quiesce: str = ""
    frozen_ms: int = 0
    froze: bool = False
    # Of a backup: whether it has changes alone, and why it has not.
    incremental: bool = False
    full_because: str = ""
    adopted: int = 0
    memory: str = ""
    state: str = ""
    held: bool = False
    stood_ms: int = 0
    disks: tuple[tuple[str, str, bool], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it has neither succeeded nor failed."""
        return bool(self.id) and not self.ended_ms


class CopyStore:
    """The record of the last copy in one Pod."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/disk-copy.json"

    def read(self) -> CopyRecord:
        """What is known of the last one."""
        blank = CopyRecord()._asdict()
        with contextlib.suppress(FileNotFoundError, ValueError), open(self._path) as file:
            found = json.loads(file.read(_LONGEST))
            if isinstance(found, dict):
                disks = _read_disks(found.pop("disks", None))
                known = {name: found[name] for name, value in blank.items() if isinstance(found.get(name), type(value))}
                return CopyRecord(**(blank | known | {"disks": disks}))
        return CopyRecord()

    def keep(self, record: CopyRecord) -> None:
        """Remember it. Raises OSError."""
        replace_json(self._path, record._asdict())


def _read_disks(found: object) -> tuple[tuple[str, str, bool], ...]:
    """All of them; none where one is not whole: a copy of a part of them would be none."""
    if not isinstance(found, list):
        return ()
    disks = []
    for each in found:
        match each:
            case [str(volume), str(target), bool(block)]:
                disks.append((volume, target, block))
            case _:
                return ()
    return tuple(disks)
