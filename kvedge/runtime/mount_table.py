"""The kernel's table of mounts, read.

Called by whatever has to know where cgroups are, or what is mounted below a directory. Reads /proc/self/mountinfo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Mount(Struct, frozen=True):
    """One mount: where, the file system's kind, and the options of its super block."""

    target: Path
    kind: str
    options: frozenset[str]


def mount_table() -> str:
    """The table's text, in this process' mount namespace."""
    return Path("/proc/self/mountinfo").read_bytes().decode("utf-8", "surrogateescape")


def parse_mounts(text: str) -> Iterator[Mount]:
    """The mounts of a table, in its order."""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, described = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(described) < 3:
            continue
        # Blanks and the like are written as octal numbers; everything else is as it is.
        target = _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields[4])
        yield Mount(Path(target), described[0], frozenset(described[2].split(",")))


def mounts_below(path: Path) -> list[Path]:
    """What is mounted below a directory, deepest first, by its real path; from the same file system too."""
    # The table knows no symbolic links: a data directory that is one would seem to have nothing mounted in it.
    real = path.resolve()
    found = [mount.target for mount in parse_mounts(mount_table()) if real in mount.target.parents]
    return sorted(found, key=lambda item: len(item.parts), reverse=True)


def mounts_within(path: Path) -> list[Path]:
    """As :meth:`mounts_below`, and the directory itself where something is mounted there."""
    real = path.resolve()
    own = [real] if any(mount.target == real for mount in parse_mounts(mount_table())) else []
    return [*mounts_below(path), *own]
