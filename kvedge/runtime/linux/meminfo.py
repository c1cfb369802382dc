"""What the kernel says of the host's memory: `/proc/meminfo`. Used by launchers, handlers and the node agent."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def read_meminfo(proc: Path = _PROC) -> dict[str, int]:
    """Its figures by name, in KiB where they are sizes.

    Raises:
        OSError: when it cannot be read.
    """
    return parse_meminfo((proc / "meminfo").read_text())


def parse_meminfo(text: str) -> dict[str, int]:
    """The same of its text; lines that hold no figure are left out."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            found[name] = int(words[0])
    return found
