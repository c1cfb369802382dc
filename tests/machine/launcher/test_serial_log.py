"""The serial console's log with a real QEMU behind it: what is kept of a guest that never stops writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.log_files import LARGEST_SERIAL
from kvedge.rpc import launcher_pb2 as m
from tests.support.flood_guest import WORDS, write_flood_disk
from tests.support.launcher_pod import launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine
# What a guest can write at most before somebody looks, with all that a slow machine adds: far from a disk's size.
MOST = 64 << 20
# The launcher cuts a megabyte and more at a time: it would show if it held that at once.
MOST_GROWTH_KIB = 8 << 10


def test_a_guest_that_floods_its_console_cannot_fill_the_disk(tmp_path: Path, seed: Path) -> None:
    image = tmp_path / "image"
    (image / "disk").mkdir(parents=True)
    image.chmod(0o755)
    write_flood_disk(image / "disk" / "flood.img")
    with launcher_pod(tmp_path / "pod", seed=seed, images={"disk_0": image}) as pod:
        vmi = pod.vmi(
            domain={"memory": {"guest": "64Mi"}, "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]}},
            volumes=[{"name": "root", "containerDisk": {"image": "flood"}}],
        )
        assert pod.sync(vmi).state == m.DOMAIN_STATE_RUNNING
        current = pod.directory / "private" / pod.uid / "virt-serial0-log"
        older = current.with_name("virt-serial0-log.1")
        wait_until(older.exists, "the log was cut", seconds=60, pause=0.2)
        first, memory = older.stat().st_ino, pod.launcher_memory("VmRSS")
        wait_until(lambda: older.stat().st_ino != first, "the log was cut again", seconds=30, pause=0.2)
        # QEMU goes on at the beginning of the file that was cut under its hands.
        wait_until(lambda: current.stat().st_size > len(WORDS), "QEMU goes on writing", seconds=30)
        assert current.stat().st_blocks * 512 < MOST
        with current.open("rb") as log:
            assert WORDS in log.read(4096)
        kept = older.read_bytes()
        assert len(kept) >= LARGEST_SERIAL
        assert len(kept) + current.stat().st_size < MOST
        # Byte by byte, whatever a terminal would make of them.
        assert kept.count(WORDS) > 1000
        assert b"\0" * 4096 not in kept
        assert len(list(current.parent.glob("virt-serial0-log*"))) <= 3
        # The log passes through the launcher piece by piece, whatever the guest's speed.
        assert pod.launcher_memory("VmRSS") - memory < MOST_GROWTH_KIB
