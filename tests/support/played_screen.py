"""A guest's screen as QEMU's VNC server has it, as far as a viewer needs: it shows one colour and notes the keys.

RFB 3.8 without a password, and QEMU's extended key events, by which it is told of keys and not only of characters
(https://github.com/rfbproto/rfbproto/blob/master/rfbproto.rst).
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Final

_VERSION: Final = b"RFB 003.008\n"
_WIDTH, _HEIGHT = 64, 48
# 32 bits a pixel, depth 24, little endian, true colour: red, green and blue in a byte each.
_FORMAT: Final = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
_EXTENDED_KEYS: Final = -258
_SET_FORMAT, _SET_ENCODINGS, _WANT_PICTURE, _KEY, _POINTER, _CUT_TEXT, _QEMU = 0, 2, 3, 4, 5, 6, 255
# How much follows the type of a message.
_REST: Final = {_SET_FORMAT: 19, _WANT_PICTURE: 9, _KEY: 7, _POINTER: 5, _QEMU: 11}


@dataclass
class PlayedScreen:
    """Serves one viewer after the other."""

    # Whether the key goes down, X11's number of its character, and the number of the key itself.
    keys: list[tuple[bool, int, int]] = field(default_factory=list)

    @property
    def pressed(self) -> list[int]:
        """The keys that went down, by the number of the key itself (XT's, 0x80 more for those with E0)."""
        return [number for is_down, _, number in self.keys if is_down]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One viewer, until it leaves.

        Raises:
            IncompleteReadError: when it leaves in the middle.
        """
        writer.write(_VERSION)
        assert await reader.readexactly(12) == _VERSION
        writer.write(b"\1\1")
        assert await reader.readexactly(1) == b"\1"
        writer.write(b"\0\0\0\0")
        await reader.readexactly(1)
        name = b"played"
        writer.write(struct.pack(">HH", _WIDTH, _HEIGHT) + _FORMAT + struct.pack(">I", len(name)) + name)
        shown = 0
        while kind := await reader.read(1):
            if await self._take(kind[0], reader) and shown < 2:
                writer.write(_extended_keys() if shown == 0 else _picture())
                shown += 1

    async def _take(self, kind: int, reader: asyncio.StreamReader) -> bool:
        """One message; whether it asks for a picture."""
        if kind == _SET_ENCODINGS:
            (count,) = struct.unpack(">xH", await reader.readexactly(3))
            await reader.readexactly(4 * count)
        elif kind == _CUT_TEXT:
            (length,) = struct.unpack(">3xi", await reader.readexactly(7))
            await reader.readexactly(abs(length))
        elif kind == _QEMU:
            _, is_down, keysym, number = struct.unpack(">BHII", await reader.readexactly(_REST[kind]))
            self.keys.append((bool(is_down), keysym, number))
        elif kind == _KEY:
            is_down, keysym = struct.unpack(">B2xI", await reader.readexactly(_REST[kind]))
            self.keys.append((bool(is_down), keysym, 0))
        else:
            await reader.readexactly(_REST[kind])
        return kind == _WANT_PICTURE


def _extended_keys() -> bytes:
    """A picture of nothing, which says that keys may be told of by their numbers."""
    return struct.pack(">BxH", 0, 1) + struct.pack(">HHHHi", 0, 0, 0, 0, _EXTENDED_KEYS)


def _picture() -> bytes:
    """All of it in one colour."""
    head = struct.pack(">BxH", 0, 1) + struct.pack(">HHHHi", 0, 0, _WIDTH, _HEIGHT, 0)
    return head + b"\x20\x40\x80\x00" * (_WIDTH * _HEIGHT)
