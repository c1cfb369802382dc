"""Where the claim is that a disk moves to while its guest runs: its name among what is handed over to the launcher.

Called by the controller, the handler and the launcher. Pure; imports names alone. The claim comes by an attachment Pod,
like a hotplugged volume: as a directory with the image in it, or as a device.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from kvedge.resources.disks.claim_places import IMAGE_FILE
from kvedge.resources.disks.hotplug_places import HOTPLUG_DIRECTORY

# The reason of the place's entry in `volumeStatus` once the guest has its disk there.
DISK_MOVED: Final = "DiskMoved"
_PREFIX: Final = "kvedge-moved-"
_LETTERS: Final = 16


def moved_place(volume: str, claim: str) -> str:
    """The name, which no other volume of the VMI has: a volume that moves again has another one."""
    digest = hashlib.sha256(f"{volume}\n{claim}".encode()).digest()
    return _PREFIX + base64.b32encode(digest).decode().lower()[:_LETTERS]


def is_moved_place(name: str) -> bool:
    """Whether a name is one of these."""
    return name.startswith(_PREFIX) and len(name) == len(_PREFIX) + _LETTERS


def moved_path(place: str, *, block: bool) -> str:
    """Where the disk is in the launcher's Pod."""
    return f"{HOTPLUG_DIRECTORY}/{place}" if block else f"{HOTPLUG_DIRECTORY}/{place}/{IMAGE_FILE}"


def find_place(path: str) -> str:
    """The name, of a disk's path in the launcher's Pod; empty for a disk in another place."""
    if not path.startswith(f"{HOTPLUG_DIRECTORY}/"):
        return ""
    name = path.removeprefix(f"{HOTPLUG_DIRECTORY}/").partition("/")[0]
    return name if is_moved_place(name) else ""
