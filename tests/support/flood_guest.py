"""A guest of one sector that writes its own code to the serial port for ever, as fast as it can: a hostile one.

For tests of what a guest can do to its node by talking. Boots by BIOS within two seconds, also emulated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

# What it says again and again, with bytes that a terminal obeys.
WORDS: Final = b"\x1b]0;owned\x07flood\x1b[31m\xff\x00\r\n"
# cld; xor ax,ax; mov ds,ax; again: mov si,0x7c00; mov cx,512; mov dx,0x3f8; rep outsb; jmp again
_CODE: Final = bytes.fromhex("fc 31c0 8ed8 be007c b90002 baf803 f36e ebf3")
# Where a BIOS finds no smaller disk bootable.
_DISK_BYTES: Final = 1 << 20


def write_flood_disk(path: Path) -> None:
    """Write its raw disk."""
    sector = (_CODE + WORDS * 20)[:510].ljust(510, b".") + b"\x55\xaa"
    path.write_bytes(sector.ljust(_DISK_BYTES, b"\0"))
