"""A layer over the disk on a claim: what the guest writes goes with this Pod, and the claim is only read.

Called by `disks`. A launcher that is started again in the same Pod finds the layer and keeps it.
"""

from __future__ import annotations

import os
from typing import Final

from kvedge.launcher.disks.claim_disk import claim_disk
from kvedge.launcher.disks.disk_facts import has_direct_io, read_block_size
from kvedge.launcher.disks.disk_plan import EphemeralPlan
from kvedge.launcher.disks.qemu_img_client import create_qcow2
from kvedge.launcher.domain.context import DiskSource
from kvedge.launcher.launcher_errors import ClaimUnusable
from kvedge.launcher.launcher_options import LauncherOptions

_MODE: Final = 0o640
_SECTOR: Final = 512


def layer_over_claim(plan: EphemeralPlan, options: LauncherOptions) -> DiskSource:
    """The layer, which is there afterwards.

    Raises:
        ClaimUnusable: when the claim holds no disk that can be read.
        DiskFull: when there is no room for the layer.
    """
    base = claim_disk(plan.base, options)
    if base.served:
        text = "its disk is still coming back from a backup, and no layer is laid over it until then"
        raise ClaimUnusable(plan.base.field, plan.base.claim, text, "wait until the restore is complete")
    if not os.path.exists(plan.path):
        size = _read_size(base.path)
        if not size:
            raise ClaimUnusable(plan.base.field, plan.base.claim, "its disk is empty", "fill the claim first")
        create_qcow2(plan.path, size, (base.path, "raw"))
        os.chmod(plan.path, _MODE)
    return DiskSource(
        path=plan.path,
        format="qcow2",
        backing=(base.path, "raw"),
        backing_block=base.block,
        direct_io_ok=has_direct_io(plan.path) and base.direct_io_ok,
        block_size=read_block_size(plan.path),
    )


def _read_size(path: str) -> int:
    """In whole sectors; of a device as well."""
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return -(-os.lseek(opened, 0, os.SEEK_END) // _SECTOR) * _SECTOR
    finally:
        os.close(opened)
