"""What restic gives of a large file, as files to read from: a pipe of its own, or pieces that it is asked for.

Used by the client of a repository. Reads; raises when restic hangs.
"""

from __future__ import annotations

import io
import os
import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kvedge.storage.backups.file_asker import FileAsker, NoAnswer
from kvedge.storage.backups.patience import Patience

_LOOK_SECONDS: Final = 1.0


class WatchedPipe(io.RawIOBase):
    """What a program writes, read for as long as it does something."""

    def __init__(self, pipe: int, patience: Patience) -> None:
        super().__init__()
        self._pipe = pipe
        self._patience = patience

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises Stalled when the program has hung."""
        while not select.select([self._pipe], [], [], _LOOK_SECONDS)[0]:
            self._patience.check()
        return os.readv(self._pipe, [buffer])


class AskedFile(io.RawIOBase):
    """A file from a place on, as it is asked for."""

    def __init__(self, asker: FileAsker, position: int) -> None:
        super().__init__()
        self._asker = asker
        self._position = position

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises NoAnswer when restic has ended or cannot read it, Stalled when it has hung."""
        found = self._asker.read(self._position, len(buffer))
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)


@contextmanager
def open_channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends, ours and that of restic's mounter."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def watch_process(process: subprocess.Popen[bytes], patience: Patience) -> Callable[[], None]:
    """Raises NoAnswer once the process has ended, Stalled when it has hung."""

    def look() -> None:
        if process.poll() is not None:
            raise NoAnswer("restic has ended")
        patience.check()

    return look
