"""What a thin pool of LVM holds of kvedge's: names, tags, sizes and room. Pure.

Called by the thin driver. A volume is the logical volume `kvedge-NAME`, with the tag `kvedge`: one without the tag is
somebody else's, whatever its name. What else there is to know of it stands in further tags, which lvm2 writes in one
piece with the volume itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from kvedge.storage.volumes.lvm_report import LogicalVolume
from kvedge.storage.volumes.volume_driver import SNAPSHOT_PREFIX, NewVolume, PlaceSpace, VolumeDriverError

OURS: Final = "kvedge"
_NAMED: Final = "kvedge-"
_STAGED: Final = "kvedge-new-"
# The file system of the notes on all others.
NOTES_VOLUME: Final = "notes"
_SIZE: Final = "kvedge.size="
_BLOCK: Final = "kvedge.block"
_TAKEN: Final = "kvedge.taken="
_USED: Final = "kvedge.used="
# lvm2 takes 127 characters with those that it adds.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
# What ext4 needs for itself beside a disk of the claim's size: inodes, journal, and the disk's own extents.
_FILE_SYSTEM_SHARE: Final = 16
_FILE_SYSTEM_LEAST: Final = 16 << 20
_SECTOR: Final = 512
# From here on nothing new is made: a pool that is full stops every guest that has a disk in it.
_FULL_PERCENT: Final = 95.0


class ThinVolume(Struct, frozen=True):
    """One of ours: how large it may become, whether it is a device, and of a snapshot when, and what it shared then.

    A device is as large as its logical volume, of whole extents: the guest sees all of it, so that a copy needs as much
    room. `asked` is what it was made for.
    """

    name: str
    size: int
    asked: int
    block: bool
    taken: int
    shared: int
    lv: LogicalVolume

    @property
    def used(self) -> int:
        """What it takes of the pool; of a snapshot, which has no device, at most."""
        return max(self.shared, int(self.lv.size * self.lv.data_percent / 100))


class PoolSeen(Struct, frozen=True):
    """The pool of a place, what is ours in it, and the names of all volumes of its group."""

    pool: LogicalVolume
    volumes: Mapping[str, ThinVolume]
    staged: frozenset[str]
    names: frozenset[str]


def lv_name(name: str) -> str:
    """The logical volume of a volume.

    Raises:
        VolumeDriverError: there can be none of that name.
    """
    return _NAMED + _check(name)


def staged_name(name: str) -> str:
    """The logical volume that becomes a volume.

    Raises:
        VolumeDriverError: there can be none of that name.
    """
    return _STAGED + _check(name)


def see_pool(volumes: Iterable[LogicalVolume], pool: str) -> PoolSeen | None:
    """What a group holds, of which this is the pool; None when it has no such pool."""
    found = list(volumes)
    pools = [each for each in found if each.name == pool and {"thin", "pool"} <= each.layout]
    if not pools:
        return None
    ours = [each for each in found if OURS in each.tags and each.pool == pool and each.name.startswith(_NAMED)]
    staged = frozenset(each.name for each in ours if each.name.startswith(_STAGED))
    whole = (_read(each) for each in ours if each.name not in staged)
    names = frozenset(each.name for each in found)
    return PoolSeen(pools[0], {each.name: each for each in whole}, staged, names)


def make_tags(volume: NewVolume, *, taken: int = 0, shared: int = 0) -> list[str]:
    """The words by which lvm2 writes what a volume is."""
    tags = [OURS, f"{_SIZE}{volume.size}"]
    tags += [_BLOCK] if volume.block else []
    tags += [f"{_TAKEN}{taken}", f"{_USED}{shared}"] if taken else []
    return [word for tag in tags for word in ("--addtag", tag)]


def change_size_tag(volume: ThinVolume, size: int) -> list[str]:
    """The words by which a volume that has grown says so."""
    old = [tag for tag in sorted(volume.lv.tags) if tag.startswith(_SIZE) and tag != f"{_SIZE}{size}"]
    return ["--addtag", f"{_SIZE}{size}", *(word for tag in old for word in ("--deltag", tag))]


def lv_size(size: int, *, block: bool) -> int:
    """How many bytes the logical volume of a volume has: a file system needs room for itself."""
    wanted = size if block else size + size // _FILE_SYSTEM_SHARE + _FILE_SYSTEM_LEAST
    return -(-wanted // _SECTOR) * _SECTOR


def pool_trouble(seen: PoolSeen, where: str) -> str:
    """Why a pool cannot be used; empty when it can."""
    pool = seen.pool
    if pool.missing_devices:
        return f"volume group of {where} lacks {pool.missing_devices} of its disks: bring them back (pvs, vgck)"
    if pool.needs_check or pool.health in ("failed", "metadata_read_only"):
        state = pool.health or "needs a check"
        return f"thin pool {where} is damaged ({state}): stop its VMs and run lvconvert --repair {where}"
    return ""


def room_trouble(seen: PoolSeen, where: str) -> str:
    """Why nothing new is put into a pool; empty when there is room."""
    pool = seen.pool
    if not pool.zeroes:
        return (
            f"thin pool {where} does not clear its blocks, so that guests would read what others have written: "
            f"lvchange --zero y {where}"
        )
    if pool.metadata_percent >= _FULL_PERCENT:
        return (
            f"the metadata of thin pool {where} are {pool.metadata_percent:.0f} % full: "
            f"lvextend --poolmetadatasize +1G {where}, or delete snapshots and claims"
        )
    if pool.data_percent >= _FULL_PERCENT:
        return (
            f"thin pool {where} is {pool.data_percent:.0f} % full: lvextend --size +10G {where}, delete claims, or "
            "have guests trim (fstrim)"
        )
    return ""


def pool_space(seen: PoolSeen) -> PlaceSpace:
    """The room of a pool."""
    pool = seen.pool
    taken = int(pool.size * pool.data_percent / 100)
    volumes = seen.volumes.values()
    snapshots = sum(each.shared for each in volumes if each.name.startswith(SNAPSHOT_PREFIX))
    # What several share counts for each of them, and together they take no more than there is.
    held = min(taken, sum(each.used for each in volumes))
    return PlaceSpace(pool.size, pool.size - taken, held, snapshots, int(pool.metadata_percent))


def _read(lv: LogicalVolume) -> ThinVolume:
    def number(prefix: str) -> int:
        found = [tag.removeprefix(prefix) for tag in lv.tags if tag.startswith(prefix)]
        # Of two sizes, which a kill can leave, the larger one was promised last.
        return max((int(each) for each in found if each.isdigit()), default=0)

    asked, is_block = number(_SIZE) or lv.size, _BLOCK in lv.tags
    return ThinVolume(
        name=lv.name.removeprefix(_NAMED),
        size=max(asked, lv.size) if is_block else asked,
        asked=asked,
        block=is_block,
        taken=number(_TAKEN),
        shared=number(_USED),
        lv=lv,
    )


def _check(name: str) -> str:
    if not _NAME.fullmatch(name) or name.startswith("new-"):
        raise VolumeDriverError(f"{name!r} is no name of a volume")
    return name
