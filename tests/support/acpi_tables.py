"""ACPI tables for tests."""

from __future__ import annotations


def a_table(signature: bytes, content: bytes = b"licence") -> bytes:
    """A table with this content behind its header."""
    header = signature + (36 + len(content)).to_bytes(4, "little") + bytes([1, 0]) + b"KVEDGE" + b"TESTTABL"
    header += (1).to_bytes(4, "little") + b"TEST" + (1).to_bytes(4, "little")
    raw = bytearray(header + content)
    raw[9] = -sum(raw) % 256
    return bytes(raw)
