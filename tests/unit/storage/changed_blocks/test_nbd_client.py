"""What is read over NBD, from QEMU's own server."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.storage.changed_blocks.backup_worker import BackupJob, SavedDisk, save_disks
from kvedge.storage.changed_blocks.block_runs import CLUSTER
from kvedge.storage.changed_blocks.nbd_client import NbdClient, NbdError
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("qemu-nbd") is None, reason="the host has no qemu-nbd")
SIZE = 40 * CLUSTER + 512


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=30, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Two clusters of data, of which one has changed since the bitmap began; a third one was zeroed since."""
    path = tmp_path / "disk.qcow2"
    run("qemu-img", "create", "-f", "qcow2", str(path), str(SIZE))
    run("qemu-io", "-c", f"write -P 1 {CLUSTER} {2 * CLUSTER}", "-c", f"write -P 3 {9 * CLUSTER} {CLUSTER}", str(path))
    run("qemu-img", "bitmap", "--add", str(path), "c1")
    run("qemu-io", "-c", f"write -P 2 {2 * CLUSTER} 512", "-c", f"write -z {9 * CLUSTER} {CLUSTER}", str(path))
    return path


@contextlib.contextmanager
def served(disk: Path, bitmap: str = "") -> Iterator[str]:
    socket = str(disk.parent / f"s{len(bitmap)}")
    more = ["-B", bitmap] if bitmap else []
    command = ["qemu-nbd", "-r", "--persistent", "-e", "4", "-x", "disk", "-k", socket, "-f", "qcow2", *more, str(disk)]
    process = subprocess.Popen(command)
    try:
        wait_until(lambda: Path(socket).exists(), "the server listens", seconds=10)
        yield socket
    finally:
        process.terminate()
        process.wait()


def test_size_extents_and_bytes_are_the_disks(disk: Path) -> None:
    with served(disk) as socket, NbdClient(socket, "disk") as client:
        assert client.size == SIZE
        found = list(client.extents())
        assert sum(length for _, length, _ in found) == SIZE
        assert [(offset, length) for offset, length, flags in found if not flags & 2] == [(CLUSTER, 2 * CLUSTER)]
        assert client.read(CLUSTER - 2, 4) == b"\0\0\1\1"
        assert client.read(2 * CLUSTER, 513) == b"\2" * 512 + b"\1"
        assert client.read(SIZE - 512, 512) == bytes(512)


def test_what_is_not_served_is_told(disk: Path, tmp_path: Path) -> None:
    with served(disk) as socket:
        with pytest.raises(NbdError, match="refuses option"):
            NbdClient(socket, "other")
        with pytest.raises(NbdError, match="does not tell"):
            NbdClient(socket, "disk", "qemu:dirty-bitmap:c1")
        with NbdClient(socket, "disk") as client, pytest.raises(NbdError, match="cannot be read"):
            client.read(SIZE, 512)
    with pytest.raises(FileNotFoundError):
        NbdClient(str(tmp_path / "nothing"), "disk")


def test_a_chain_of_a_full_and_an_incremental_image_is_the_disk(disk: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "0.qcow2", tmp_path / "1.qcow2"
    told: list[int] = []
    old = tmp_path / "old.qcow2"
    run("qemu-img", "create", "-f", "qcow2", str(old), str(SIZE))
    run("qemu-io", "-c", f"write -P 1 {CLUSTER} {2 * CLUSTER}", "-c", f"write -P 3 {9 * CLUSTER} {CLUSTER}", str(old))
    with served(old) as socket:
        save_disks(BackupJob(socket=socket, disks=(SavedDisk(export="disk", path=str(before)),)), told.append)
    with served(disk, "c1") as socket:
        changed = SavedDisk(export="disk", path=str(after), changes="disk", bitmap="c1")
        save_disks(BackupJob(socket=socket, disks=(changed,)), told.append)
    assert after.stat().st_size < before.stat().st_size
    assert told[-1] == 100
    run("qemu-img", "rebase", "-u", "-F", "qcow2", "-b", str(before), str(after))
    run("qemu-img", "check", str(after))
    run("qemu-img", "compare", str(disk), str(after))
