"""Which boot of the kernel this is. Called by keepers of records of processes, links or checks that end with a boot."""

from __future__ import annotations

from typing import Final

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def read_boot_id() -> str:
    """The kernel's id of this boot. A PID or a link of a record with another id means nothing any more.

    Raises:
        OSError: where /proc does not have it.
    """
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
