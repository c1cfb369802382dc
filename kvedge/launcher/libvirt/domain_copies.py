"""Copies of the running domain's disks: begun, followed, given up, and made the disks that the guest goes on with.

Part of the door to libvirt; made by `libvirt_session`, used by `disk_move`. A complete copy follows what the guest
writes, a moment later: only of a guest whose CPUs stand it can be said that a copy is what its disk is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Final
from xml.etree import ElementTree

import libvirt

from kvedge.launcher.libvirt.copy_document import count_dirty_bytes, render_copy
from kvedge.launcher.libvirt.domain_facts import CopyProgress
from kvedge.launcher.libvirt.libvirt_errors import translate_errors

_NODES: Final = json.dumps({"execute": "query-named-block-nodes", "arguments": {"flat": True}})


class DomainCopies:
    """The copies of one domain's disks."""

    def __init__(self, find: Callable[[], Any]) -> None:
        """`find()` is the domain; raises LauncherError."""
        self._find = find

    def begin(self, target: str, path: str, *, block: bool) -> None:
        """Copy a disk to the image or device at `path`, which is there and has its size.

        Raises:
            LauncherError: when libvirt does not begin.
        """
        flags = (
            libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
            # The domain is defined as well, and is never started a second time.
            | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
        )
        with translate_errors(f"copying disk {target}"):
            domain = self._find()
            document = render_copy(ElementTree.fromstring(domain.XMLDesc()), target, path, block=block)
            domain.blockCopy(target, document, {}, flags)

    def progress(self, target: str) -> CopyProgress:
        """How far the copy of a disk is; all zero when there is none."""
        with translate_errors(f"reading how far the copy of disk {target} is"):
            found = self._find().blockJobInfo(target)
        return CopyProgress(int(found["cur"]), int(found["end"])) if found else CopyProgress()

    def are_alike(self, targets: Collection[str]) -> bool:
        """Whether the copies have all that their disks have, of a guest whose CPUs stand.

        QEMU notes what is still to be copied in bitmaps without names, and forgets a part of it when it begins to copy
        that part. How much is left it counts before. So the bitmaps are read first: nothing in them, and nothing left
        afterwards, means that nothing is on its way either.
        """
        # A library of its own, for these questions.
        import libvirt_qemu  # type: ignore[import-untyped]  # as `libvirt` itself

        with translate_errors("asking whether the copies are complete"):
            domain = self._find()
            nodes = json.loads(libvirt_qemu.qemuMonitorCommand(domain, _NODES, 0))["return"]
            if count_dirty_bytes(nodes):
                return False
            found = [domain.blockJobInfo(target) for target in targets]
            return all(each and each["cur"] == each["end"] > 0 for each in found)

    def pivot(self, target: str) -> None:
        """Have the guest go on with the copy of a disk.

        Raises:
            LauncherError: when it goes on with the disk that it has.
        """
        with translate_errors(f"exchanging disk {target}"):
            self._find().blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)

    def give_up(self, target: str) -> None:
        """End a copy; QEMU has closed it afterwards.

        Raises:
            LauncherError: when there is none, or libvirt does not end it.
        """
        with translate_errors(f"giving up the copy of disk {target}"):
            self._find().blockJobAbort(target, 0)
