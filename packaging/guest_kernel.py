"""Linux as it is once it has unpacked itself, made from the file that a distribution has of it.

An emulated guest takes a fifth of its whole start to unpack its kernel, each time. Its boot sector (guest-boot.s) reads
this one instead: the part for real mode as it is, and the kernel itself where it would have put it. Imported by
packaging/guest; uses the standard library, and the tools of the distribution that unpack what that cannot.
"""

from __future__ import annotations

import lzma
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

SECTOR: Final = 512
# Offsets in the file, named as in "The real-mode kernel header" of the kernel's own description of its boot protocol.
_SETUP_SECTORS: Final = 0x1F1
_PAYLOAD: Final = 0x248
_PREFERRED: Final = 0x258
# How the kernel may be packed, by its first bytes; the names are programs of packages of the same name.
_XZ: Final = b"\xfd7zXZ\0"
_GZIP: Final = b"\x1f\x8b"
_TOOLS: Final = {b"\x02\x21\x4c\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}
# Behind what is packed stands how long it is unpacked.
_LENGTH: Final = 4
_LOADED: Final = 1
_WITHOUT_CONTENT: Final = 8


def setup_sectors(kernel: bytes) -> int:
    """How long a kernel's part for real mode is."""
    return kernel[_SETUP_SECTORS] + 1


def preferred_place(kernel: bytes) -> int:
    """Where in memory a kernel runs if it may choose."""
    return int(struct.unpack_from("<Q", kernel, _PREFERRED)[0])


def unpacked_kernel(kernel: bytes, tool: Callable[[str], Path]) -> bytes:
    """The part for real mode, and behind it what lies from `preferred_place` on once the kernel has unpacked itself.

    `tool` says where a program of that name is. ValueError: the kernel is packed in a way that is not known here, or is
    for another place; CalledProcessError: it cannot be unpacked.
    """
    setup = setup_sectors(kernel) * SECTOR
    place, length = struct.unpack_from("<II", kernel, _PAYLOAD)
    program = _unpack(kernel[setup + place : setup + place + length], tool)
    return kernel[:setup] + _memory_of(program, preferred_place(kernel))


def _unpack(packed: bytes, tool: Callable[[str], Path]) -> bytes:
    if packed.startswith(_XZ):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(_GZIP):
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed)
    name = _TOOLS.get(packed[:4])
    if name is None:
        raise ValueError(f"a kernel that is packed as {packed[:6].hex()} is not known")
    done = subprocess.run([tool(name), "-d", "-c"], input=packed[:-_LENGTH], capture_output=True, check=True)
    return done.stdout


def _memory_of(program: bytes, first: int) -> bytes:
    """What an ELF program's segments are in memory from `first` on, up to what the kernel clears itself."""
    if program[:5] != b"\x7fELF\x02":
        raise ValueError("what was packed is no kernel of 64 bits")
    (headers,), (size, count) = struct.unpack_from("<Q", program, 0x20), struct.unpack_from("<HH", program, 0x36)
    segments = [struct.unpack_from("<IIQQQQQQ", program, headers + size * number) for number in range(count)]
    loaded = sorted(
        (place, at, offset, length) for kind, _, offset, at, place, length, _, _ in segments if kind == _LOADED
    )
    (entry,) = struct.unpack_from("<Q", program, 0x18)
    if not loaded or loaded[0][0] != first or entry != first:
        raise ValueError(f"the kernel does not begin at {first:#x}, where it wants to be")
    last, at, _, length = loaded[-1]
    memory = bytearray(last + length - first)
    for place, _, offset, length in loaded:
        memory[place - first : place - first + length] = program[offset : offset + length]
    end = last + _cleared(program, at, length) - first
    return bytes(memory if any(memory[end:]) else memory[:end])


def _cleared(program: bytes, begin: int, length: int) -> int:
    """Where in a segment the first section is that has no content: from there on the kernel clears it at its start."""
    (table,), (size, count) = struct.unpack_from("<Q", program, 0x28), struct.unpack_from("<HH", program, 0x3A)
    sections = [struct.unpack_from("<IIQQ", program, table + size * number) for number in range(count)]
    places = [at - begin for _, kind, _, at in sections if kind == _WITHOUT_CONTENT]
    return min((place for place in places if 0 < place < length), default=length)
