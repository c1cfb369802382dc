"""libvirt's own record of what one QEMU can do, below libvirt's root: its place, and the one fact that kvedge reads.

Used by `capability_probe`, which keeps the record as the node's seed, and by `libvirt_session`. libvirt compares the
record with the QEMU that is installed whenever a guest starts, and writes it anew when it differs.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from kvedge.launcher.libvirt.libvirt_setup import LARGEST_SEED, SEED_DIRECTORY

_VERSION: Final = re.compile(rb"<version>([0-9]{1,9})</version>")


def record_path(libvirt_root: str, emulator: str) -> str:
    """Where the record of this emulator is: libvirt names it after the SHA-256 of the emulator's path."""
    return f"{libvirt_root}/{SEED_DIRECTORY}/{hashlib.sha256(emulator.encode()).hexdigest()}.xml"


def read_recorded_version(libvirt_root: str, emulator: str) -> int:
    """The version of this emulator, as libvirt writes versions; 0 when libvirt has recorded none."""
    try:
        with open(record_path(libvirt_root, emulator), "rb") as file:
            found = _VERSION.search(file.read(LARGEST_SEED))
    except OSError:
        return 0
    return int(found[1]) if found is not None else 0
