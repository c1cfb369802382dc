"""What controller, launcher and exporter must agree on of a VM's backup: where its files are, and what they are called.

Called by those roles. Pure; imports nothing.
"""

from __future__ import annotations

from typing import Final

# Beside a backup's images, written last: a directory without it holds no backup that is whole.
MANIFEST: Final = "backup.json"


def backup_directory(vm: str, checkpoint: str) -> str:
    """Where a backup's images are in its claim."""
    return f"{vm}/{checkpoint}"


def checkpoint_name(backup: str, stamp: str) -> str:
    """How a backup's moment is called."""
    return f"{backup}-{stamp}"


def image_name(backup: str, volume: str) -> str:
    """The image of a volume."""
    return f"{backup}-{volume}.qcow2"
