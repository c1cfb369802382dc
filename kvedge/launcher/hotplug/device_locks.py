"""The devices of hotplugged disks that the monitor keeps for this guest alone.

Called by `disk_keeper`, for one change at a time. A device is held before its disk is attached, for as long as the
domain has the disk or it is tried, and given back after that. What is held is the monitor's to know, so that a launcher
that was started again finds it.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable

from kvedge.launcher.disks.device_holder import hold_device, read_held_devices, release_device
from kvedge.launcher.hotplug.disk_wishes import DiskWish
from kvedge.launcher.hotplug.hotplug_plan import Action, Step
from kvedge.launcher.launcher_errors import ClaimUnusable, LauncherError
from kvedge.launcher.libvirt.domain_facts import DomainDisk

log = logging.getLogger(__name__)


class DeviceLocks:
    """The held devices beneath `directory`, that of hotplugged volumes in the Pod's public volume."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._public = os.path.dirname(directory)
        self._found: set[str] | None = None

    def take(self, wish: DiskWish) -> None:
        """Hold the device of a disk that the domain does not have yet, unless it is shared or only read.

        Raises:
            ClaimUnusable: when it is in use elsewhere; it may be free later.
            Unanswered: when the monitor does not answer.
        """
        if not wish.exclusive:
            return
        # The device that was at this path before may have been another one.
        self._release(wish.path)
        number = hold_device(self._public, wish.path)
        if number == errno.EBUSY:
            raise ClaimUnusable(
                f"volume {wish.name}",
                wish.claim,
                "its device is in use on this node, by another VM or by the node itself",
                "it is attached by itself once the device is free: detach it there or stop that VM, or set shareable:"
                " true on the disks of all VMs that share it",
            )
        if number:
            raise ClaimUnusable(f"volume {wish.name}", wish.claim, f"its device: {os.strerror(number)}")
        self._find_held_devices().add(wish.path)

    def find_unused(self, disks: Iterable[DomainDisk], steps: Iterable[Step]) -> list[str]:
        """The held devices that the domain does not have, and that no step is about to give it."""
        used = {disk.source for disk in disks}
        used |= {step.wish.path for step in steps if step.action is Action.ATTACH and step.wish is not None}
        return sorted(self._find_held_devices() - used)

    def free(self, paths: Iterable[str]) -> None:
        """Let others have these devices; one for which the monitor does not answer stays, to be tried again."""
        for path in paths:
            try:
                self._release(path)
            except LauncherError as error:
                log.warning("a device is still held", extra={"facts": {"device": path, "why": str(error)}})

    def _release(self, path: str) -> None:
        release_device(self._public, path)
        self._find_held_devices().discard(path)

    def _find_held_devices(self) -> set[str]:
        if self._found is None:
            # One reading is enough: nothing else asks the monitor for devices.
            found = read_held_devices(self._public)
            self._found = {path for path in found if path.startswith(f"{self._directory}/")}
        return self._found
