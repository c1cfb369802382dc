"""What power cuts, dying disks and editors do to a small file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path], object]


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Damage] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_bytes(b"\xff\x00\xfe" * 99),
    "a list": lambda path: path.write_bytes(b"[]\n"),
    "another object": lambda path: path.write_bytes(b'{"a": {"b": [1]}}\n'),
    "a directory": _directory,
}
