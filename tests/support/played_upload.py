"""A played sink, and a real server of an upload's worker before it: for tests of the server and of the proxy."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kvedge.runtime.tls.authority_plan import Authorities
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest
from kvedge.runtime.tls.tls_contexts import client_context
from kvedge.storage.imports.uploads.upload_run import NotNow, UploadRun
from kvedge.storage.imports.uploads.upload_server import UploadServer, upload_tls
from tests.support.builders import NOW


class PlayedSink:
    """Keeps a digest of what it takes; refuses more than `room` bytes, and may be held up."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room
        self.digest = hashlib.sha256()
        self.size = 0
        self.is_discarded = False
        self.is_finished = False
        # Cleared: the disk, or the conversion, takes its time.
        self.may_take = threading.Event()
        self.may_finish = threading.Event()
        self.may_take.set()
        self.may_finish.set()

    def take(self, stream: BinaryIO) -> None:
        while data := stream.read(1 << 16):
            self.may_take.wait()
            self.size += len(data)
            if self.size > self.room:
                raise OverflowError(f"effective image size is larger than the reported available storage: {self.room}")
            self.digest.update(data)

    def finish(self) -> int:
        self.may_finish.wait()
        self.is_finished = True
        return self.size

    def discard(self) -> None:
        self.is_discarded = True


class PlayedWorker:
    """The server on loopback; `sinks` are those of its attempts."""

    def __init__(self, authority: Authorities, server_name: str, directory: Path, room: int = 1 << 30) -> None:
        self.sinks: list[PlayedSink] = []
        self.room = room
        # Whether sinks begin with a disk that takes nothing.
        self.holds_up = False
        material = authority.issue(LeafRequest(server_name, hosts=[server_name], client=False), NOW)
        for name, data in (("tls.crt", material.certificate), ("tls.key", material.key), ("ca.crt", authority.bundle)):
            (directory / name).write_bytes(data)
        self.run = UploadRun(self._make_sink)
        self.server = UploadServer(self.run, upload_tls(directory), refusal_of, "127.0.0.1", 0)

    def _make_sink(self) -> PlayedSink:
        self.sinks.append(PlayedSink(self.room))
        if self.holds_up:
            self.sinks[-1].may_take.clear()
        return self.sinks[-1]


def refusal_of(error: Exception) -> NotNow:
    """As the worker says it."""
    if isinstance(error, OverflowError):
        return NotNow(400, f"Saving stream failed: {error}")
    return NotNow(500, f"Saving stream failed: {error}")


@contextmanager
def played_worker(
    authority: Authorities, server_name: str, directory: Path, room: int = 1 << 30
) -> Iterator[PlayedWorker]:
    """One that serves."""
    worker = PlayedWorker(authority, server_name, directory, room)
    worker.server.start()
    try:
        yield worker
    finally:
        worker.server.stop()


def an_authority() -> Authorities:
    """One of uploads."""
    return Authorities(CertificateAuthority.create("uploads", NOW))


def client_tls(authority: Authorities, common_name: str) -> ssl.SSLContext:
    """The context of a client of that name."""
    return client_context(authority.issue(LeafRequest(common_name, server=False), NOW))
