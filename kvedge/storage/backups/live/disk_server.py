"""Gives a live disk to one QEMU, to read and write, by the NBD protocol on a socket in the claim's directory.

Started by the worker. A disk has one client at a time: another one is turned away at once, so that no second guest
writes it. A request that cannot be done is answered with an error of I/O, or of room, for which QEMU has its guest
stand. Opens the socket and starts threads.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import threading
from contextlib import suppress
from typing import Final

from kvedge.resources.disks.claim_places import LIVE_SOCKET
from kvedge.runtime.background import BackgroundThread, passing_thread
from kvedge.storage.backups.live.live_disk import LiveDisk
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.imports.sinks.nbd_server import ClientGone, NbdServer

log = logging.getLogger(__name__)

_REQUEST: Final = struct.Struct(">IHHQQI")
_REQUEST_MAGIC: Final = 0x25609513
_REPLY: Final = struct.Struct(">IIQ")
_REPLY_MAGIC: Final = 0x67446698
_READ, _WRITE, _DISCONNECT, _FLUSH = 0, 1, 2, 3
_FUA: Final = 1
_HAS_FLAGS, _SENDS_FLUSH, _SENDS_FUA = 1, 4, 8
_EIO, _EINVAL, _ENOSPC = 5, 22, 28
# QEMU's own limit of a request.
_LONGEST: Final = 32 << 20
_BACKLOG: Final = 4


class GuestConnection(NbdServer):
    """One client of a live disk, until it goes."""

    flags = _HAS_FLAGS | _SENDS_FLUSH | _SENDS_FUA

    def __init__(self, connection: socket.socket, disk: LiveDisk) -> None:
        super().__init__(connection, disk)
        self._disk = disk

    def _answer(self) -> bool:
        magic, flags, kind, handle, position, length = _REQUEST.unpack(self._take(_REQUEST.size))
        if magic != _REQUEST_MAGIC or kind == _DISCONNECT or length > _LONGEST:
            return False
        given = self._take(length) if kind == _WRITE else memoryview(b"")
        found, failure = b"", 0
        try:
            if position + length > self._disk.size or kind not in (_READ, _WRITE, _FLUSH):
                failure = _EINVAL
            elif kind == _READ:
                found = self._disk.read_at(position, length)
            elif kind == _WRITE and length:
                self._disk.write_at(position, given)
            if not failure and (kind == _FLUSH or (kind == _WRITE and flags & _FUA)):
                self._disk.flush()
        except BackupFailure as error:
            log.warning("the guest waits for its backup: %s", error.message)
            failure = _EIO
        except OSError as error:
            log.warning("a request of the guest failed: %s", error)
            failure = _ENOSPC if error.errno in (errno.ENOSPC, errno.EDQUOT) else _EIO
        self._connection.sendall(_REPLY.pack(_REPLY_MAGIC, failure, handle))
        if found and not failure:
            self._connection.sendall(found)
        return True

    def _take(self, size: int) -> memoryview:
        found = memoryview(bytearray(size))
        left = found
        while left:
            count = self._connection.recv_into(left)
            if not count:
                raise ClientGone
            left = left[count:]
        return found


class DiskServer:
    """Serves one disk from its start until its stop."""

    def __init__(self, disk: LiveDisk, folder: int, name: str) -> None:
        """Listen in an open directory. Raises OSError."""
        self._disk = disk
        self._lock = threading.Condition()
        self._client: socket.socket | None = None
        self._stopped = False
        self._had_client = False
        self._name = name
        remove_socket(folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # By the descriptor: the directory's own path may be long.
            self._socket.bind(f"/proc/self/fd/{folder}/{LIVE_SOCKET}")
            os.chmod(LIVE_SOCKET, 0o660, dir_fd=folder)
            self._socket.listen(_BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        self._folder = folder
        self._thread = BackgroundThread(f"live-{name}", self._accept)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    @property
    def has_client(self) -> bool:
        """Whether a guest uses the disk."""
        with self._lock:
            return self._client is not None

    @property
    def had_client(self) -> bool:
        """Whether a guest has ever used the disk by this server."""
        with self._lock:
            return self._had_client

    def share(self) -> bool:
        """While no guest comes through us, let one open the complete image itself; False once one has."""
        with self._lock:
            return self._client is not None or self._disk.share()

    def stop(self) -> None:
        """Let nobody come any more; a client that is there is cut off, and its last request is over afterwards.

        The disk is closed next: a request that is still under way would go to whatever gets its file's number then. It
        takes as long as the backup has to answer.
        """
        # Before what follows, and whatever the storage says: it may have failed, or be read-only by now.
        with suppress(OSError):
            remove_socket(self._folder)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            self._stopped = True
            if self._client is not None:
                with suppress(OSError):
                    self._client.shutdown(socket.SHUT_RDWR)
            self._lock.wait_for(lambda: self._client is None)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                # Closed by stop().
                return
            with self._lock:
                if self._stopped or self._client is not None or not self._disk.take_back():
                    caller.close()
                    continue
                self._client = caller
                self._had_client = True
            try:
                passing_thread(f"disk-{self._name}", self._serve, caller)
            except BaseException:
                # Such as one thread too many: else nobody could ever come again, and stop() would wait for it.
                caller.close()
                self._let_go()
                raise

    def _serve(self, caller: socket.socket) -> None:
        try:
            GuestConnection(caller, self._disk).serve()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            self._client = None
            self._lock.notify_all()


def remove_socket(folder: int) -> None:
    """Nobody listens in this directory."""
    with suppress(FileNotFoundError):
        os.unlink(LIVE_SOCKET, dir_fd=folder)
