"""What a backup takes of the guest's disks, and which notes of changes are still of use.

Called by `backup_images`. Pure. An incremental backup is one in which every disk's changes are known without a gap;
where they are not for one of them, all disks are taken whole, and it is said why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.tracked_disks import TrackedDisk, bitmap_name
from kvedge.resources.disks.vm_backups import image_name
from kvedge.resources.values.name_grammar import is_label, is_subdomain

# So many notes cost each write of the guest something, and QEMU memory.
MOST_CHECKPOINTS: Final = 8
_LONGEST_NAME: Final = 253


class WantedBackup(NamedTuple):
    """What is asked: where the images go, what their names begin with, and which checkpoints count."""

    target: str
    directory: str
    name: str
    checkpoint: str = ""
    base: str = ""
    keep: frozenset[str] = frozenset()
    skip_quiesce: bool = False
    vm: str = ""

    def image(self, volume: str) -> str:
        """The file of a volume."""
        return image_name(self.name, volume)


def check_backup(wanted: WantedBackup) -> None:
    """Whether all names are plain: paths are made of them.

    Raises:
        BadRequest: when one is not.
    """
    parts = wanted.directory.split("/")
    if not is_label(wanted.target):
        raise BadRequest("backup.target", f"{wanted.target!r} is no volume's name")
    if len(parts) > 4 or not all(len(part) < _LONGEST_NAME and is_subdomain(part.replace("_", "-")) for part in parts):
        raise BadRequest("backup.directory", f"{wanted.directory!r} is no directory beneath the claim")
    for name in filter(None, (wanted.name, wanted.checkpoint, wanted.base, *wanted.keep)):
        if len(name) > _LONGEST_NAME or not is_subdomain(name.replace("_", "-")):
            raise BadRequest("backup", f"{name!r} is no name")


def why_full(wanted: WantedBackup, volumes: Collection[str], disks: Mapping[str, TrackedDisk]) -> str:
    """Why not only changes can be taken; empty when they can, or nobody asked for them."""
    if not wanted.base:
        return ""
    lost = [name for name in volumes if name not in disks or wanted.base not in disks[name].checkpoints]
    if not lost:
        return ""
    which = "disk" if len(lost) == 1 else "disks"
    return (
        f"what has changed on {which} {', '.join(sorted(lost)[:8])} since checkpoint {wanted.base} is not known: the VM"
        " was started again or moved since, or the disk was exchanged, resized or attached"
    )


def find_useless(wanted: WantedBackup, disks: Mapping[str, TrackedDisk]) -> Iterator[tuple[str, str]]:
    """Disk and name of each bitmap that nobody needs."""
    for name, disk in disks.items():
        needed = {bitmap_name(checkpoint, disk.size) for checkpoint in {*wanted.keep, wanted.base} - {""}}
        yield from ((name, bitmap) for bitmap in sorted(disk.bitmaps - needed))


def check_count(volumes: Sequence[str], disks: Mapping[str, TrackedDisk]) -> None:
    """Whether one more checkpoint may begin; `disks` as they are once the useless ones are gone.

    Raises:
        BadRequest: when there are too many.
    """
    for name in volumes:
        if name in disks and len(disks[name].checkpoints) >= MOST_CHECKPOINTS:
            text = f"the changes of disk {name} are noted for {MOST_CHECKPOINTS} checkpoints already"
            raise BadRequest("backup.checkpoint", text, "delete trackers that are not needed any more")
