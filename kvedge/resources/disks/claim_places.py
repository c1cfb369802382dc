"""Where the disk on a claim is in the launcher's Pod, by its volume's name.

Called by `volume_facts`, and by the launcher's process that stays. Pure; imports names alone. The paths are KubeVirt's,
as its users' tools know them.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.names import CLAIM_DIRECTORY

# The one image in a claim with a file system; no other name is looked for.
IMAGE_FILE: Final = "disk.img"
# The image of a disk that comes back from its backup while its guest uses it. It gets the name above when all of it is
# there: until then nobody can take it for a disk.
LIVE_IMAGE: Final = f".{IMAGE_FILE}.live"
# Where QEMU reads and writes it, by NBD. The name is short: with the longest name of a volume the path has 104 of the
# 107 characters that a socket's path may have.
LIVE_SOCKET: Final = ".nbd"
LIVE_EXPORT: Final = "disk"
# The claim with the state of firmware and TPM: its name in a VMI's volumeStatus, and in its launcher's Pod.
STATE_VOLUME: Final = "persistent-state-for-this-vm"
DEVICE_DIRECTORY: Final = "/dev"


def claim_directory(volume: str) -> str:
    """Where a claim with a file system, or the directory of a hostDisk, is mounted in the launcher's Pod."""
    return f"{CLAIM_DIRECTORY}/{volume}"


def device_path(volume: str) -> str:
    """Where a claim of mode Block is in the launcher's Pod."""
    return f"{DEVICE_DIRECTORY}/{volume}"
