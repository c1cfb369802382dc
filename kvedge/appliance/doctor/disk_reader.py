"""The file system below the data directory, as `kvedge doctor` judges it.

Called by host_reader.py. Makes two files without a name for a moment, to see whether files share blocks there; nothing
of them is ever in the directory.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from kvedge.appliance.doctor.host_facts import DiskFacts
from kvedge.storage.volumes.tree_copy import shares_blocks


def read_disk(data_dir: Path) -> DiskFacts:
    """The file system that a data directory is on, or will be."""
    there = next(path for path in (data_dir, *data_dir.parents) if path.exists())
    # Mounts come in the order in which they were made: of two at one place the later is seen.
    best = max(
        (mount for mount in psutil.disk_partitions(all=True) if there.is_relative_to(mount.mountpoint)),
        key=lambda mount: len(Path(mount.mountpoint).parts),
        default=None,
    )
    size = os.statvfs(there)
    # Some file systems count no inodes at all.
    inodes = size.f_favail if size.f_files else 1 << 30
    return DiskFacts(
        path=str(there),
        kind=best.fstype if best else "unknown",
        options=frozenset(best.opts.split(",")) if best else frozenset(),
        free=size.f_bavail * size.f_frsize,
        free_inodes=inodes,
        shares_blocks=_tried_sharing(there),
    )


def _tried_sharing(place: Path) -> bool | None:
    try:
        return shares_blocks(place)
    except OSError:
        # A full disk, one that is read-only, or a user who may not write there.
        return None
