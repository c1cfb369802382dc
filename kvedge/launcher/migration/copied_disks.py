"""Which disks of a guest that moves have to be copied: those whose image is this Pod's own.

Called by `outgoing_guest`. Pure. The other Pod has made files of the same sizes; claims and files of the host are
shared, or the guest does not move.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvedge.launcher.libvirt.domain_facts import DomainDisk
from kvedge.resources.names import CLAIM_DIRECTORY

# Layers over images and cloud-init's ISOs, empty disks, ISOs of Secrets and the like; see `disk_plan`.
_OWN: Final = ("/var/run/kubevirt-ephemeral-disks/", "/var/run/libvirt/", "/var/run/kubevirt-private/")


def find_copied(disks: Iterable[DomainDisk], root: str = "") -> tuple[str, ...]:
    """The targets of these disks; `root` is before the Pod's paths.

    What the guest cannot write both Pods have made alike, and QEMU does not let libvirt write it.
    """
    return tuple(disk.target for disk in disks if _is_copied(disk, root))


def _is_copied(disk: DomainDisk, root: str) -> bool:
    path = disk.source.removeprefix(root)
    own = path.startswith(_OWN) and not path.startswith(f"{CLAIM_DIRECTORY}/")
    return own and disk.device == "disk" and not disk.read_only
