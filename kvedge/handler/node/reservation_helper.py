"""QEMU's helper for SCSI persistent reservations on this node: `qemu-pr-helper`, which runs as root and may reserve.

Kept running by the plugin that offers its socket; a child of the handler. A launcher's QEMU hands it the descriptor of
its LUN with each command. The socket is in a directory that only root and the group of guests may enter, and none of
them may write; the handler makes it and hands it on, so that it has its rights before anybody can find it. A QEMU whose
helper has ended connects again with its next command, for which it waits some seconds.

A helper outlives a handler that is killed: it holds a lock, by which the next handler knows it and lets it be.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Final

from kvedge.resources.names import LAUNCHER_GID, PR_HELPER_SOCKET
from kvedge.runtime.clock import Clock
from kvedge.runtime.linux.file_locks import is_locked

log = logging.getLogger(__name__)

PROGRAM: Final = Path("/usr/bin/qemu-pr-helper")
REMEDY: Final = "install qemu-system-common there, or on other systems the package with qemu-pr-helper"
_LOCK: Final = "helper.lock"
# A helper that ends at once is not started again at once.
_PAUSE_SECONDS: Final = 5.0
_BACKLOG: Final = 64
# systemd's way to hand on a socket: descriptor 3, and the number of the process that is to have it. The lock goes
# along. Of a shell's descriptors those with one digit alone can be handed on.
_START: Final = 'exec 3<&0 4<&1 </dev/null >&2; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0"'


class ReservationHelper:
    """One node's; used by one thread at a time."""

    def __init__(self, directory: Path, clock: Clock, program: Path = PROGRAM) -> None:
        """`directory` is the handler's own, for the socket."""
        self.directory = directory
        self._clock = clock
        self._program = program
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at: float | None = None

    @property
    def is_there(self) -> bool:
        """Whether this node has the program."""
        return os.access(self._program, os.X_OK)

    @property
    def runs(self) -> bool:
        """Whether a helper serves the socket, of this handler or of one before it."""
        self._reap()
        try:
            return is_locked(self.directory / _LOCK)
        except OSError:
            return False

    def keep(self) -> None:
        """Start it, unless it runs. Raises OSError when it cannot be."""
        if self.runs:
            return
        now = self._clock.monotonic()
        if self._started_at is not None and now - self._started_at < _PAUSE_SECONDS:
            return
        self._started_at = now
        self._make_directory()
        lock = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Before anybody holds it: the number of one that has ended may be another process's by now.
            os.ftruncate(lock, 0)
            with self._listen() as listener:
                command = ["/bin/sh", "-c", _START, str(self._program)]
                self._child = subprocess.Popen(command, stdin=listener.fileno(), stdout=lock, stderr=subprocess.DEVNULL)
            os.pwrite(lock, str(self._child.pid).encode(), 0)
        except BlockingIOError:
            # Another one came first.
            return
        finally:
            os.close(lock)
        log.info("qemu-pr-helper started", extra={"facts": {"pid": self._child.pid}})

    def end(self) -> None:
        """Ask it to end: QEMUs that are connected keep it until they are not."""
        if not self.runs:
            return
        try:
            pid = int((self.directory / _LOCK).read_text())
            os.kill(pid, signal.SIGTERM)
        except (OSError, ValueError):
            return
        log.info("qemu-pr-helper ended", extra={"facts": {"pid": pid}})
        if self._child is not None:
            try:
                self._child.wait(timeout=1)
            except subprocess.TimeoutExpired:
                return
        self._reap()

    def _reap(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            log.info("qemu-pr-helper has ended", extra={"facts": {"code": self._child.returncode}})
            self._child = None

    def _make_directory(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chown(self.directory, 0, LAUNCHER_GID)
        self.directory.chmod(0o750)

    def _listen(self) -> socket.socket:
        """The socket, with its rights; it takes the place of one that was there."""
        listener = socket.socket(socket.AF_UNIX)
        place = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            staged = f"/proc/self/fd/{place}/{PR_HELPER_SOCKET}.new"
            (self.directory / f"{PR_HELPER_SOCKET}.new").unlink(missing_ok=True)
            # A path of this kind is short: those of sockets end at 108 bytes.
            listener.bind(staged)
            os.chown(staged, 0, LAUNCHER_GID)
            os.chmod(staged, 0o660)
            listener.listen(_BACKLOG)
            os.rename(staged, self.directory / PR_HELPER_SOCKET)
        except OSError:
            listener.close()
            raise
        finally:
            os.close(place)
        return listener
