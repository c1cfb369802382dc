"""Disks of the running domain as QEMU tells of them: its nodes, their sizes, and since when their changes are known.

Read for `domain_bitmaps`; used by `backup_plan` too. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kvedge.launcher.libvirt.domain_disks import ALIAS

# Of our bitmaps: the checkpoint and the disk's size follow.
_PREFIX: Final = "kvedge:"


class TrackedDisk(NamedTuple):
    """A disk of the running domain: QEMU's node, its size, and the checkpoints since which its changes are known."""

    node: str
    size: int
    checkpoints: frozenset[str] = frozenset()
    # All bitmaps of ours there, whether or not they are of use.
    bitmaps: frozenset[str] = frozenset()


def read_disks(blocks: object) -> dict[str, TrackedDisk]:
    """The disks in QEMU's answer to `query-block`, by the VMI's names."""
    found: dict[str, TrackedDisk] = {}
    for block in blocks if isinstance(blocks, list) else ():
        inserted = block.get("inserted")
        names = [part for part in str(block.get("qdev", "")).split("/") if part.startswith(ALIAS)]
        if not names or not isinstance(inserted, dict) or not inserted.get("node-name"):
            continue
        size = int(inserted["image"]["virtual-size"])
        bitmaps = [each for each in inserted.get("dirty-bitmaps", ()) if str(each.get("name", "")).startswith("kvedge")]
        known = {
            checkpoint
            for each in bitmaps
            if each.get("recording") and not each.get("inconsistent")
            if (checkpoint := _checkpoint(str(each["name"]), size))
        }
        every = frozenset(str(each["name"]) for each in bitmaps)
        found[names[0].removeprefix(ALIAS)] = TrackedDisk(inserted["node-name"], size, frozenset(known), every)
    return found


def bitmap_name(checkpoint: str, size: int) -> str:
    """The bitmap of a checkpoint on a disk of this size: QEMU does not note what a disk gains when it grows."""
    return f"{_PREFIX}{checkpoint}:{size}"


def _checkpoint(name: str, size: int) -> str:
    checkpoint, _, of_size = name.removeprefix(_PREFIX).rpartition(":")
    return checkpoint if name.startswith(_PREFIX) and of_size == str(size) else ""
