"""A program of 210 bytes for x86-64 Linux that sends back each datagram to UDP port 7: busybox has no such thing.

For guests of tests, which get it as a script in their user-data.
"""

from __future__ import annotations

import base64
import struct
from typing import Final

PORT: Final = 7
_BASE: Final = 0x400000
_HEADERS: Final = 64 + 56
_CODE: Final = bytes.fromhex(
    # edi = socket(AF_INET, SOCK_DGRAM, 0)
    "6a29 58 6a02 5f 6a02 5e 31d2 0f05 97"
    # bind(edi, {AF_INET, port 7, any address}, 16); rsp -= 4096
    "52 6802000007 4889e6 6a10 5a 6a31 58 0f05 4881ec00100000"
    # again: eax = recvfrom(edi, rsp, 2048, 0, r8 = rsp + 2048, r9 = &16)
    "4889e6 4c8d842400080000 4c8d8c2400090000 41c70110000000 ba00080000 4531d2 6a2d 58 0f05"
    # sendto(edi, rsp, eax, 0, r8, 16); jmp again
    "89c2 6a10 4159 6a2c 58 0f05 ebcc"
)


def udp_echo_program() -> bytes:
    """The ELF file."""
    size = _HEADERS + len(_CODE)
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 4096)
    return identity + header + segment + _CODE


def udp_echo_script() -> str:
    """User-data that runs it."""
    program = base64.b64encode(udp_echo_program()).decode()
    return f"#!/bin/sh\necho {program} | base64 -d >/run/udp-echo\nchmod 755 /run/udp-echo\n/run/udp-echo &\n"
