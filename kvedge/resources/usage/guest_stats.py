"""What the guests of one node have used, as its handler tells the api role.

Made by the handler, read by the api role. Figures have libvirt's names and units. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import KubeStruct

# The longest answer of a node that is read: 100 KB for each of hundreds of guests.
LARGEST_NODE_STATS: Final = 32 << 20


class StatsPart(KubeStruct, kw_only=True):
    """One vCPU, disk or NIC: `name` is the VMI's, or libvirt's where the VMI has none; only vCPUs have a `state`."""

    name: str = ""
    state: str = ""
    figures: dict[str, int] = {}


class FilesystemStats(KubeStruct, kw_only=True):
    """One file system that is mounted in the guest, as its agent says; sizes are bytes."""

    disk: str = ""
    mount_point: str = ""
    type: str = ""
    used: int = 0
    total: int = 0


class GuestStats(KubeStruct, kw_only=True):
    """One guest: `answered` when its launcher did, `complete` when QEMU did, too."""

    namespace: str = ""
    name: str = ""
    answered: bool = False
    complete: bool = False
    figures: dict[str, int] = {}
    vcpus: list[StatsPart] = []
    disks: list[StatsPart] = []
    nics: list[StatsPart] = []
    filesystems: list[FilesystemStats] = []


class NodeStats(KubeStruct, kw_only=True):
    """All guests of a node."""

    guests: list[GuestStats] = []
