"""Which disks of a guest that moves have to be copied: those whose image is this Pod's own.

Called by `outgoing_guest`. Pure. The other Pod has made files of the same sizes; claims and files of the host are
shared, or the guest does not move.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.destination_xml import CopiedClaim
from kvedge.launcher.libvirt.domain_facts import DomainDisk
from kvedge.resources.disks.claim_places import IMAGE_FILE, claim_directory, device_path
from kvedge.resources.names import CLAIM_DIRECTORY

# Layers over images and cloud-init's ISOs, empty disks, ISOs of Secrets and the like; see `disk_plan`.
_OWN: Final = ("/var/run/kubevirt-ephemeral-disks/", "/var/run/libvirt/", "/var/run/kubevirt-private/")


def find_copied(disks: Iterable[DomainDisk], root: str = "") -> tuple[str, ...]:
    """The targets of these disks; `root` is before the Pod's paths.

    What the guest cannot write both Pods have made alike, and QEMU does not let libvirt write it.
    """
    return tuple(disk.target for disk in disks if _is_copied(disk, root))


def find_copied_claims(
    disks: Iterable[DomainDisk], volumes: Collection[str], devices: Collection[str], root: str = ""
) -> tuple[CopiedClaim, ...]:
    """The disks on claims that the other Pod has other claims for: of these volumes, some of them devices over there.

    Raises:
        BadRequest: when one of them is no disk that can be copied.
    """
    found = {disk.name: disk for disk in disks}
    return tuple(_find_claim(found.get(volume), volume, root, block=volume in devices) for volume in volumes)


def _find_claim(disk: DomainDisk | None, volume: str, root: str, *, block: bool) -> CopiedClaim:
    here = "" if disk is None else disk.source.removeprefix(root)
    path = device_path(volume) if block else f"{claim_directory(volume)}/{IMAGE_FILE}"
    is_on_claim = here in (device_path(volume), f"{claim_directory(volume)}/{IMAGE_FILE}")
    if disk is None or not is_on_claim or disk.device != "disk" or disk.read_only:
        raise BadRequest(f"copied_volumes[{volume}]", "it is no disk on a claim that the guest can write")
    return CopiedClaim(volume, disk.target, root + path, block)


def _is_copied(disk: DomainDisk, root: str) -> bool:
    path = disk.source.removeprefix(root)
    own = path.startswith(_OWN) and not path.startswith(f"{CLAIM_DIRECTORY}/")
    return own and disk.device == "disk" and not disk.read_only
