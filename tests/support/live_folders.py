"""Folders that a box or a launcher changes while a test looks through them.

Used by tests of boxes. `Path.rglob` fails when a folder goes between the look at its parent and the one into it.
"""

from __future__ import annotations

import os
from pathlib import Path


def find_named(top: Path, *names: str) -> list[Path]:
    """The files and folders of these names below `top`; of what goes meanwhile, as much as was still there."""
    found = []
    for where, folders, files in os.walk(top):
        found += [Path(where, name) for name in (*folders, *files) if name in names]
    return found
