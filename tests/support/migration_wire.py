"""The wire between two launcher Pods of one machine by which a guest moves: what two handlers and TLS are in a cluster.

For the machine tests of migration; needs root. Sockets in the source's volume lead to those of the same name in the
target's. The wire can be cut, and the target's libvirt can be made mute.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from kvedge.resources.migration_channels import CHANNELS, CONTROL, MIGRATION_FOLDER

_PIECE = 256 << 10


class MigrationWire:
    """The three sockets of one migration."""

    def __init__(self, source: Path, target: Path) -> None:
        """Both are volumes `public` of Pods; connections are counted in `seen` by their socket's name."""
        self._source = source / MIGRATION_FOLDER
        self._target = target / MIGRATION_FOLDER
        self.seen = dict.fromkeys(CHANNELS, 0)
        self.mute = threading.Event()
        self._open: list[socket.socket] = []
        self._listening: list[socket.socket] = []

    def start(self) -> None:
        """Listen in the source's volume."""
        self._source.mkdir(exist_ok=True)
        for name in CHANNELS:
            listener = socket.socket(socket.AF_UNIX)
            with _short(self._source) as directory, contextlib.suppress(FileNotFoundError):
                os.unlink(f"{directory}/{name}")
            with _short(self._source) as directory:
                listener.bind(f"{directory}/{name}")
            (self._source / name).chmod(0o777)
            listener.listen(32)
            self._listening.append(listener)
            threading.Thread(target=self._accept, args=(listener, name), daemon=True).start()

    def cut(self) -> None:
        """Cut all connections; new ones may come."""
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        """Cut, and listen no more."""
        for listener in self._listening:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._listening.clear()
        self.cut()

    def _accept(self, listener: socket.socket, name: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                threading.Thread(target=self._serve, args=(near, name), daemon=True).start()

    def _serve(self, near: socket.socket, name: str) -> None:
        with near, socket.socket(socket.AF_UNIX) as far:
            try:
                with _short(self._target) as directory:
                    far.connect(f"{directory}/{name}")
            except OSError:
                return
            self.seen[name] += 1
            self._open += [near, far]
            there = threading.Thread(target=self._pump, args=(near, far, False), daemon=True)
            there.start()
            self._pump(far, near, name == CONTROL)
            there.join()

    def _pump(self, source: socket.socket, target: socket.socket, mutable: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                if not (mutable and self.mute.is_set()):
                    target.sendall(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _short(directory: Path) -> Iterator[str]:
    """The directory by a path that sockets' names have room for."""
    opened = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)
