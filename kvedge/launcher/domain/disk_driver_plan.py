"""How QEMU reads and writes one disk: cache, io, discard.

Used by disk_xml. Touches nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kvedge.launcher.domain.context import DiskSource
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.resources.types.devices import Disk

_CACHES: Final = frozenset({"none", "writethrough", "writeback"})
_IO_MODES: Final = frozenset({"native", "threads"})
_ERROR_POLICIES: Final = frozenset({"stop", "ignore", "report", "enospace"})


class DriverPlan(NamedTuple):
    """The attributes of a disk's driver; None leaves one out."""

    cache: str | None
    error_policy: str
    io: str | None
    discard: str | None


def plan_driver(disk: Disk, source: DiskSource | None, field: str) -> DriverPlan:
    """Cache none where O_DIRECT works and writethrough elsewhere; native io where it cannot block on allocation.

    `source` is None for an empty CD-ROM drive.

    Raises:
        ConversionError: for words that do not exist, and for a mode that the volume's file system cannot do.
    """
    _check_word(disk.cache, _CACHES, f"{field}.cache")
    _check_word(disk.io, _IO_MODES, f"{field}.io")
    policy = disk.error_policy or "stop"
    _check_word(policy, _ERROR_POLICIES, f"{field}.errorPolicy")
    if source is None:
        return DriverPlan(None, policy, None, None)
    cache = _cache(disk, source, field)
    return DriverPlan(cache, policy, _io(disk, source, cache, field), _discard(disk, source))


def _check_word(word: str, words: frozenset[str], field: str) -> None:
    if word and word not in words:
        raise ConversionError(field, f"has invalid value {word}", f"use one of {', '.join(sorted(words))}")


def _cache(disk: Disk, source: DiskSource, field: str) -> str:
    wanted = disk.cache
    if disk.shareable:
        if wanted not in {"", "none"}:
            raise ConversionError(
                f"{field}.cache", f"{wanted} cannot be shared", "remove it: a shareable disk has none"
            )
        wanted = "none"
    if wanted == "none" and not source.direct_io_ok:
        raise ConversionError(
            f"{field}.cache",
            "none needs O_DIRECT, which the file system of this volume does not have",
            "remove it, or use writethrough",
        )
    return wanted or ("none" if source.direct_io_ok else "writethrough")


def _io(disk: Disk, source: DiskSource, cache: str, field: str) -> str | None:
    if disk.io == "native" and cache != "none":
        raise ConversionError(
            f"{field}.io",
            f"native needs cache none, and this disk has {cache}",
            "remove it, or use threads",
        )
    if disk.io:
        return disk.io
    # On a sparse file, native io blocks the guest whenever a block has to be allocated.
    return "native" if cache == "none" and (source.block or source.preallocated) else None


def _discard(disk: Disk, source: DiskSource) -> str | None:
    # The guest's fstrim must not give back blocks that were allocated on purpose.
    return "unmap" if disk.cdrom is None and not source.thick else None
