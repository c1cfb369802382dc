"""Where the disk on a claim is in the launcher's Pod, by its volume's name.

Called by `volume_facts`, and by the launcher's process that stays. Pure; imports names alone. The paths are KubeVirt's,
as its users' tools know them.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.names import CLAIM_DIRECTORY

# The one image in a claim with a file system; no other name is looked for.
IMAGE_FILE: Final = "disk.img"
# The claim with the state of firmware and TPM: its name in a VMI's volumeStatus, and in its launcher's Pod.
STATE_VOLUME: Final = "persistent-state-for-this-vm"
DEVICE_DIRECTORY: Final = "/dev"


def claim_directory(volume: str) -> str:
    """Where a claim with a file system, or the directory of a hostDisk, is mounted in the launcher's Pod."""
    return f"{CLAIM_DIRECTORY}/{volume}"


def device_path(volume: str) -> str:
    """Where a claim of mode Block is in the launcher's Pod."""
    return f"{DEVICE_DIRECTORY}/{volume}"
