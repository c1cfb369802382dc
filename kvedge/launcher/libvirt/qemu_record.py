"""libvirt's own record of what one QEMU can do, below libvirt's root: its place, and what kvedge reads of it.

Used by `capability_probe`, which keeps the record as the node's seed, by `libvirt_session` and in the preparation.
libvirt compares the record with the QEMU that is installed whenever a guest starts, and writes it anew when it differs.
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
    found = _VERSION.search(_read(libvirt_root, emulator))
    return int(found[1]) if found is not None else 0


def has_recorded_device(libvirt_root: str, emulator: str, flag: str) -> bool | None:
    """Whether this emulator has what libvirt calls by `flag`; None when libvirt has recorded nothing."""
    record = _read(libvirt_root, emulator)
    return f"<flag name='{flag}'/>".encode() in record if record else None


def _read(libvirt_root: str, emulator: str) -> bytes:
    try:
        with open(record_path(libvirt_root, emulator), "rb") as file:
            return file.read(LARGEST_SEED)
    except OSError:
        return b""
