"""QEMU's own locks on an image, as another process sees them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvedge.launcher.disks.image_locks import is_locked
from tests.support.waiting import wait_until

QEMU_NBD = "/usr/bin/qemu-nbd"
pytestmark = pytest.mark.skipif(not os.path.exists(QEMU_NBD), reason="needs qemu-nbd (apt: qemu-utils)")


@contextmanager
def opened_by_qemu(image: Path, *options: str) -> Iterator[None]:
    """QEMU's block layer with the image open, as a guest's is."""
    socket = image.with_suffix(".sock")
    command = [QEMU_NBD, "--persistent", "-f", "raw", "-k", str(socket), *options, str(image)]
    process = subprocess.Popen(command)
    try:
        wait_until(socket.exists, "qemu-nbd serves the image")
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(1 << 20))
    return path


def locked(image: Path, *, writes: bool) -> bool:
    with image.open("rb+") as file:
        return is_locked(file.fileno(), writes=writes)


def test_an_image_that_a_guest_writes_is_locked_for_writers_and_readers(image: Path) -> None:
    assert not locked(image, writes=True)
    with opened_by_qemu(image):
        assert locked(image, writes=True)
        assert locked(image, writes=False)
    assert not locked(image, writes=True)


def test_an_image_that_is_only_read_is_free_for_readers(image: Path) -> None:
    with opened_by_qemu(image, "--read-only"):
        assert not locked(image, writes=False)
