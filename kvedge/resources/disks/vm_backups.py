"""What controller, launcher and exporter must agree on of a VM's backup: where its files are, and what they are called.

Called by those roles. Pure; imports names alone.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from kvedge.resources.disks.moved_places import is_moved_place

# Beside a backup's images, written last: a directory without it holds no backup that is whole.
MANIFEST: Final = "backup.json"
_TARGET: Final = "kvedge-backup-"
_LETTERS: Final = 16


def target_name(backup_uid: str) -> str:
    """The utility volume that a backup goes into, which no volume of the VMI is called."""
    return _TARGET + base64.b32encode(hashlib.sha256(backup_uid.encode()).digest()).decode().lower()[:_LETTERS]


def is_directory_place(name: str) -> bool:
    """Whether the launcher gets all of a claim by this name: for a backup, or for a disk that moves."""
    return is_moved_place(name) or (name.startswith(_TARGET) and len(name) == len(_TARGET) + _LETTERS)


def backup_directory(vm: str, checkpoint: str) -> str:
    """Where a backup's images are in its claim."""
    return f"{vm}/{checkpoint}"


def checkpoint_name(backup: str, stamp: str) -> str:
    """How a backup's moment is called."""
    return f"{backup}-{stamp}"


def image_name(backup: str, volume: str) -> str:
    """The image of a volume."""
    return f"{backup}-{volume}.qcow2"
