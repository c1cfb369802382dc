# Tests: kvedge/storage/backups/live/disk_server.py
"""A server of a live disk that cannot do what it has to: its client goes, and it can be stopped."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.disks.claim_places import LIVE_SOCKET
from kvedge.storage.backups.live import disk_server
from kvedge.storage.backups.live.block_map import BLOCK, LiveFacts
from kvedge.storage.backups.live.disk_server import DiskServer
from kvedge.storage.backups.live.live_disk import LiveDisk
from tests.support.waiting import wait_until


class Backup:
    def read(self, position: int, size: int) -> bytes:
        return b"b" * size


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DiskServer]:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    disk = LiveDisk(folder, LiveFacts(BLOCK, "content", "uid"), Backup())
    made = DiskServer(disk, folder, "root")
    made.start()
    yield made
    disk.close()
    os.close(folder)


def connect(place: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(10)
    client.connect(str(place / LIVE_SOCKET))
    return client


def stop(server: DiskServer) -> bool:
    """Whether it ends."""
    stopping = threading.Thread(target=server.stop, daemon=True)
    stopping.start()
    stopping.join(10)
    return not stopping.is_alive()


def test_a_client_for_whom_there_is_no_thread_is_let_go_and_the_next_one_is_served(
    server: DiskServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(disk_server, "passing_thread", fail)
        with connect(tmp_path) as client:
            assert client.recv(8) == b""
        wait_until(lambda: not server.has_client, "nobody is there", 10)
    with connect(tmp_path) as client:
        assert client.recv(8) == b"NBDMAGIC"
    assert stop(server)


def test_a_client_is_cut_off_also_where_the_socket_cannot_be_removed(
    server: DiskServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk is closed next."""
    with connect(tmp_path) as client:
        assert client.recv(8) == b"NBDMAGIC"

        def fail(*_: Any, **__: Any) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        with monkeypatch.context() as patch:
            patch.setattr(disk_server.os, "unlink", fail)
            assert stop(server)
        assert not server.has_client
        while client.recv(4096):
            continue
