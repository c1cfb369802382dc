"""A disk in its backup, read anywhere, for as long as it takes: restic is started again when it or its place went away.

Asked by a live disk, under its lock. Between two tries nobody asks the place: what was wrong last is said again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from kvedge.storage.backups.file_asker import FileAsker, NoAnswer
from kvedge.storage.backups.patience import Stalled
from kvedge.storage.backups.restic_program import BackupFailure

# A guest stands for each failure, and its launcher has it go on after some seconds.
_PAUSE_SECONDS: Final = 5.0

Opening = Callable[[], AbstractContextManager[FileAsker]]


class BackupSource:
    """One file of a repository; `failure` says what is wrong with it now, empty for nothing."""

    def __init__(self, opening: Opening, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._opening = opening
        self._size = size
        self._clock = clock
        self._opened: AbstractContextManager[FileAsker] | None = None
        self._asker: FileAsker | None = None
        self._next = 0.0
        self.failure = ""

    def read(self, position: int, size: int) -> bytes:
        """All of these bytes.

        Raises:
            BackupFailure: when they cannot be had now.
        """
        if self._asker is None and self._clock() < self._next:
            raise BackupFailure(self.failure)
        try:
            asker = self._asker or self._open()
            pieces = []
            while size:
                piece = asker.read(position, size)
                if not piece:
                    raise NoAnswer("the disk in the backup ends too early")
                pieces.append(piece)
                position += len(piece)
                size -= len(piece)
        except (NoAnswer, Stalled) as error:
            raise self._let_go(error) from error
        except BackupFailure as error:
            self._note(error)
            raise
        self.failure = ""
        return b"".join(pieces)

    def close(self) -> None:
        """Have restic end."""
        opened, self._opened, self._asker = self._opened, None, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def _open(self) -> FileAsker:
        opened = self._opening()
        asker = opened.__enter__()
        self._opened, self._asker = opened, asker
        if asker.size != self._size:
            self.close()
            raise BackupFailure(f"the disk in the backup has {asker.size} bytes, and its record says {self._size}")
        return asker

    def _let_go(self, error: Exception) -> BackupFailure:
        """What restic has said of its end; the next read starts it again."""
        opened, self._opened, self._asker = self._opened, None, None
        failure = BackupFailure(str(error))
        try:
            if opened is not None:
                opened.__exit__(*sys.exc_info())
        except BackupFailure as said:
            failure = said
        except (NoAnswer, Stalled):
            pass
        self._note(failure)
        return failure

    def _note(self, failure: BackupFailure) -> None:
        self.failure = failure.message
        self._next = self._clock() + _PAUSE_SECONDS
