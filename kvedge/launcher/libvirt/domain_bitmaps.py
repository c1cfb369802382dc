"""What changes on the running domain's disks: QEMU's dirty bitmaps, which it keeps in memory for disks of any format.

Part of the door to libvirt; made by `libvirt_session`, used by `backup_images`. libvirt's own checkpoints refuse disks
that are raw, so QEMU is asked itself. A bitmap lives as long as its QEMU has this very disk open: with the guest's end,
its move to another node or the exchange of the disk it is gone, and nobody takes it for what it is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from kvedge.launcher.launcher_errors import LibvirtFailed
from kvedge.launcher.libvirt.libvirt_errors import translate_errors
from kvedge.launcher.libvirt.tracked_disks import TrackedDisk, bitmap_name, read_disks

# The standing copy of a bitmap, which is served: QEMU serves none that it still writes to.
_SERVED: Final = "kvedge-served"
_EXPORT: Final = "kvedge-changes-"
_GRANULARITY: Final = 64 << 10


class DomainBitmaps:
    """The bitmaps of one domain; every method may be called from any thread, and raises LauncherError."""

    def __init__(self, find: Callable[[], Any]) -> None:
        """`find()` is the domain; raises LauncherError."""
        self._find = find

    def disks(self) -> dict[str, TrackedDisk]:
        """The disks by the VMI's names, and what is known of their changes; while no backup job goes on."""
        return read_disks(self._ask("query-block"))

    def begin(self, disk: TrackedDisk, checkpoint: str) -> None:
        """Note from now on what changes."""
        name = bitmap_name(checkpoint, disk.size)
        self._ask("block-dirty-bitmap-add", {"node": disk.node, "name": name, "granularity": _GRANULARITY})

    def forget(self, disk: TrackedDisk, bitmap: str) -> None:
        """Remove a bitmap."""
        self._ask("block-dirty-bitmap-remove", {"node": disk.node, "name": bitmap})

    def forget_all(self) -> None:
        """Remove all bitmaps, before libvirt copies disks: it would take them along, to where no raw disk keeps one."""
        for disk in self.disks().values():
            for bitmap in sorted(disk.bitmaps):
                self.forget(disk, bitmap)

    def serve(self, disk: TrackedDisk, checkpoint: str, name: str) -> tuple[str, str]:
        """Serve what has changed since a checkpoint where the backup job serves the disks, until the job ends.

        The names of the export and of the bitmap in it. The checkpoint's own bitmap goes on.
        """
        copied = {"node": disk.node, "name": _SERVED, "granularity": _GRANULARITY, "disabled": True}
        self._ask("block-dirty-bitmap-add", copied)
        merged = {"node": disk.node, "target": _SERVED, "bitmaps": [bitmap_name(checkpoint, disk.size)]}
        self._ask("block-dirty-bitmap-merge", merged)
        export = f"{_EXPORT}{name}"
        wanted = {"type": "nbd", "id": export, "node-name": disk.node, "name": export, "bitmaps": [_SERVED]}
        self._ask("block-export-add", wanted)
        return export, _SERVED

    def stop_serving(self, disk: TrackedDisk) -> None:
        """Forget the copy, once the job has ended."""
        self._ask("block-dirty-bitmap-remove", {"node": disk.node, "name": _SERVED})

    def _ask(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        # A library of its own, for these questions.
        import libvirt_qemu  # type: ignore[import-untyped]  # as `libvirt` itself

        question = json.dumps({"execute": command, **({"arguments": dict(arguments)} if arguments else {})})
        with translate_errors(f"asking QEMU for {command}"):
            answer = json.loads(libvirt_qemu.qemuMonitorCommand(self._find(), question, 0))
        if "return" not in answer:
            raise LibvirtFailed(f"asking QEMU for {command}", 0, 0, str(answer.get("error", {}).get("desc", "")))
        return answer["return"]
