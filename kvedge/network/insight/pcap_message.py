"""Frames as a pcap file, within a size.

Called by `capture`. Pure. The format is libpcap's oldest, which every tool reads: a header of 24 bytes, and 16 before
each frame.
"""

from __future__ import annotations

import struct
from typing import Final

# A frame that a guest hands over for its NIC to cut is larger than its MTU.
LONGEST_FRAME: Final = 65535
# Magic of microseconds in this order of bytes, version 2.4, time zone and accuracy, the longest frame, Ethernet.
HEADER: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, LONGEST_FRAME, 1)
_RECORD: Final = struct.Struct("<IIII")
SMALLEST: Final = len(HEADER) + _RECORD.size + LONGEST_FRAME


class PcapFile:
    """A file that grows up to a size, in memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._content = bytearray(HEADER)

    def add(self, seconds: float, frame: bytes, length: int) -> bool:
        """Add a frame that came then and was so long on the wire; whether it had room."""
        kept = frame[:LONGEST_FRAME]
        if len(self._content) + _RECORD.size + len(kept) > self._most:
            return False
        micros = int(seconds * 1_000_000)
        self._content += _RECORD.pack(micros // 1_000_000, micros % 1_000_000, len(kept), max(length, len(kept)))
        self._content += kept
        return True

    def content(self) -> bytes:
        """The file."""
        return bytes(self._content)
