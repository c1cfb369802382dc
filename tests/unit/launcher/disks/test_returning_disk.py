# Tests: kvedge/launcher/disks/returning_disk.py, kvedge/launcher/disks/claim_disk.py
# Tests: kvedge/launcher/disks/ephemeral_disk.py
# Tests: kvedge/storage/backups/live/disk_server.py
"""A launcher finds a disk that still comes back: it takes the worker's socket, and never the half image."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvedge.launcher.disks.claim_disk import claim_disk
from kvedge.launcher.disks.disk_plan import ClaimPlan, EphemeralPlan
from kvedge.launcher.disks.ephemeral_disk import layer_over_claim
from kvedge.launcher.launcher_errors import ClaimUnusable
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.storage.backups.live.block_map import BLOCK, LiveFacts
from kvedge.storage.backups.live.disk_server import DiskServer
from kvedge.storage.backups.live.live_disk import LiveDisk
from tests.support.values import replace
from tests.support.waiting import wait_until

SIZE = 3 * BLOCK


class Backup:
    def read(self, position: int, size: int) -> bytes:
        return b"b" * size


@contextmanager
def served(place: Path) -> Iterator[LiveDisk]:
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    disk = LiveDisk(folder, LiveFacts(SIZE, "content", "uid"), Backup())
    server = DiskServer(disk, folder, "root")
    server.start()
    try:
        yield disk
    finally:
        server.stop()
        disk.close()
        os.close(folder)


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    return LauncherOptions(namespace="n", name="v", uid="u", root=str(tmp_path))


def plan(place: Path) -> ClaimPlan:
    return ClaimPlan(
        volume="root", field="f", claim="c", block=False, directory=str(place), path=str(place / "disk.img"),
        size=SIZE, run="u",
    )  # fmt: skip


def qemu_io(path: Path, *commands: str) -> str:
    words = [word for command in commands for word in ("-c", command)]
    uri = f"nbd+unix:///disk?socket={path}"
    return subprocess.run(["qemu-io", "-f", "raw", uri, *words], capture_output=True, text=True, check=True).stdout


def test_qemu_reads_and_writes_through_the_worker_until_the_image_has_its_name(
    options: LauncherOptions, tmp_path: Path
) -> None:
    with served(tmp_path) as disk:
        source = claim_disk(plan(tmp_path), options)
        assert (source.served, source.format, source.path) == (True, "raw", str(tmp_path / ".nbd"))
        said = qemu_io(tmp_path / ".nbd", "read -P 0x62 0 3M", "write -P 0x67 1000k 100k", "flush")
        assert "Pattern verification failed" not in said
        assert not (tmp_path / "disk.img").exists()
        while disk.copy_some(1):
            continue
        said = qemu_io(tmp_path / ".nbd", "read -P 0x67 1000k 100k", "write -P 0x68 2M 4k", "flush")
        assert "Pattern verification failed" not in said
        # Who serves it has it locked as a QEMU would.
        with pytest.raises(ClaimUnusable, match="open in another QEMU"):
            claim_disk(plan(tmp_path), options)
    expected = bytearray(b"b" * SIZE)
    expected[1000 << 10 : 1100 << 10] = b"g" * (100 << 10)
    expected[2 << 20 : (2 << 20) + 4096] = b"h" * 4096
    assert (tmp_path / "disk.img").read_bytes() == bytes(expected)
    source = claim_disk(plan(tmp_path), options)
    assert (source.served, source.path) == (False, str(tmp_path / "disk.img"))


def test_without_its_worker_the_disk_is_refused_and_no_blank_one_is_made(
    options: LauncherOptions, tmp_path: Path
) -> None:
    with served(tmp_path):
        pass
    with pytest.raises(ClaimUnusable, match="the worker that serves it is away"):
        claim_disk(plan(tmp_path), options)
    assert not (tmp_path / "disk.img").exists()


def test_a_second_guest_is_turned_away(options: LauncherOptions, tmp_path: Path) -> None:
    with served(tmp_path):
        words = ["qemu-io", "-f", "raw", f"nbd+unix:///disk?socket={tmp_path}/.nbd"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guest:
            assert guest.stdin is not None
            assert guest.stdout is not None
            guest.stdin.write("read 0 512\n")
            guest.stdin.flush()
            assert "read 512/512" in guest.stdout.readline()
            with pytest.raises(ClaimUnusable, match="or has a guest"):
                claim_disk(plan(tmp_path), options)
            guest.stdin.close()
            guest.wait(10)
        assert wait_until(lambda: _find(options, tmp_path), "the guest is gone", 10)


def _find(options: LauncherOptions, place: Path) -> bool:
    try:
        return claim_disk(plan(place), options).served
    except ClaimUnusable:
        return False


@pytest.mark.parametrize(
    ("change", "words"),
    [({"copied": SIZE, "incoming": "m"}, "cannot come here with a guest"), ({"exclusive": False}, "for one guest")],
    ids=["a guest that comes", "a disk for several guests"],
)
def test_who_cannot_use_the_worker_is_refused(
    options: LauncherOptions, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    with served(tmp_path), pytest.raises(ClaimUnusable, match=words):
        claim_disk(replace(plan(tmp_path), **change), options)  # type: ignore[arg-type]


def test_no_layer_is_laid_over_a_disk_that_still_comes_back(options: LauncherOptions, tmp_path: Path) -> None:
    base = replace(plan(tmp_path), read_only=True)
    with served(tmp_path), pytest.raises(ClaimUnusable, match="no layer is laid over it until then"):
        layer_over_claim(EphemeralPlan(path=str(tmp_path / "layer"), base=base), options)
    assert not (tmp_path / "layer").exists()


def test_a_server_that_stops_waits_for_the_request_that_is_under_way(tmp_path: Path) -> None:
    """Else it would write to whatever file has the number of the image next."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow(LiveDisk):
        def write_at(self, position: int, data: memoryview) -> None:
            began.set()
            assert may_end.wait(30)
            super().write_at(position, data)
            ended.set()

    disk = Slow(folder, LiveFacts(SIZE, "content", "uid"), Backup())
    server = DiskServer(disk, folder, "root")
    server.start()
    words = ["qemu-io", "-f", "raw", "-c", "write 0 4k", f"nbd+unix:///disk?socket={tmp_path / '.nbd'}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
        assert began.wait(30)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(0.3)
        assert stopping.is_alive()
        may_end.set()
        stopping.join(30)
        assert ended.is_set()
        assert not stopping.is_alive()
        writer.kill()
    disk.close()
    os.close(folder)
