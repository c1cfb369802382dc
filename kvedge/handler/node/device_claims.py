"""Makes the devices of a launcher's Pod usable for the launcher's user.

Called by the sync loop before a guest starts. A container runtime makes the nodes in the Pod's own /dev after those
that the device plugins name, owner and mode included, and those are the launcher's already (see `device_nodes`). This
is for runtimes that do otherwise, for Pods that are older than such a handler, and for the block devices of claims,
which no runtime gives to the Pod's user unless it is set up to. KubeVirt's handler does the same.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.disks.volume_facts import is_hotpluggable
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.storage import BLOCK
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.storage.beneath import hold_open_beneath

log = logging.getLogger(__name__)

_MODE: Final = 0o660
# Of a guest's devices.
_MOST_GROUPS: Final = 256
# Beneath /dev; the kernel's list of devices has given these their numbers for good.
DEVICE_NUMBERS: Final[Mapping[str, int]] = {
    "kvm": os.makedev(10, 232),
    "net/tun": os.makedev(10, 200),
    "vhost-net": os.makedev(10, 238),
    "vhost-vsock": os.makedev(10, 241),
}
# And these have numbers that the kernel chooses when it starts.
NUMBERED_BY_HOST: Final = ("sev",)


class DeviceClaims(Struct, frozen=True):
    """The devices that a launcher may have; which it has is seen in its Pod."""

    numbers: Mapping[str, int] = field(default_factory=lambda: DEVICE_NUMBERS)
    host_dev: Path = Path("/dev")

    def claim(self, launcher: HeldProcess, blocks: Iterable[str] = (), *, passes: bool = False) -> None:
        """Let the launcher's user open each device that its container has, and the block devices of these volumes;
        `passes`: those of VFIO and USB too, by which the guest gets devices of the node.

        Raises:
            PodNotReady: when one is not what it should be, or is the host's own.
        """
        try:
            with launcher.root() as root:
                for name, number in self.numbers.items():
                    self._claim(root, name, number)
                for name in NUMBERED_BY_HOST:
                    if (self.host_dev / name).exists():
                        self._claim(root, name, self._host_number(name))
                for name in blocks:
                    self._claim(root, name, None)
                for name in (*_list_vfio_nodes(root), *_list_usb_nodes(root)) if passes else ():
                    self._claim(root, name, self._host_number(name))
        except OSError as error:
            raise PodNotReady(f"the node cannot look at the devices of the launcher's Pod: {error}") from error

    def _host_number(self, name: str) -> int:
        """These have a number that the kernel chose when it found them; the host's node tells it."""
        try:
            return (self.host_dev / name).lstat().st_rdev
        except FileNotFoundError as error:
            raise PodNotReady(f"the node has no /dev/{name}, which the launcher's Pod has") from error

    def _claim(self, root: int, name: str, number: int | None) -> None:
        """`number` is the one that a character device must have; a volume's block device may have any."""
        try:
            with hold_open_beneath(root, f"dev/{name}", os.O_PATH) as node:
                facts = os.fstat(node)
                is_block = number is None and stat.S_ISBLK(facts.st_mode)
                if not is_block and not (stat.S_ISCHR(facts.st_mode) and facts.st_rdev == number):
                    raise PodNotReady(f"/dev/{name} of the launcher's Pod is not the device of that name")
                if _is_usable(facts):
                    return
                if facts.st_dev == self.host_dev.stat().st_dev:
                    # Its owner would change for all of the host.
                    raise PodNotReady(
                        f"/dev/{name} of the launcher's Pod is the host's own node, which user {LAUNCHER_UID} cannot "
                        f"open; let the host's udev rules give it to group {LAUNCHER_GID}, or mode 0666"
                    )
                # By descriptor: no name is looked up again.
                opened = f"/proc/self/fd/{node}"
                os.chown(opened, LAUNCHER_UID, LAUNCHER_GID)
                os.chmod(opened, _MODE)
        except FileNotFoundError:
            # The Pod did not ask for it.
            return
        log.info("device claimed", extra={"facts": {"device": f"/dev/{name}"}})


def _list_vfio_nodes(root: int) -> list[str]:
    """VFIO's own device and those of IOMMU groups in the Pod's /dev."""
    try:
        with hold_open_beneath(root, "dev/vfio", os.O_RDONLY | os.O_DIRECTORY) as folder:
            names = sorted(os.listdir(folder))
    except FileNotFoundError:
        # The launcher finds out what its guest lacks, and says so.
        return []
    return [f"vfio/{name}" for name in names if name == "vfio" or name.isdecimal()][:_MOST_GROUPS]


def _list_usb_nodes(root: int) -> list[str]:
    """USB devices in the Pod's /dev."""
    found: list[str] = []
    try:
        with hold_open_beneath(root, "dev/bus/usb", os.O_RDONLY | os.O_DIRECTORY) as folder:
            buses = [name for name in sorted(os.listdir(folder)) if name.isdecimal()][:_MOST_GROUPS]
        for bus in buses:
            with hold_open_beneath(root, f"dev/bus/usb/{bus}", os.O_RDONLY | os.O_DIRECTORY) as folder:
                found += [f"bus/usb/{bus}/{name}" for name in sorted(os.listdir(folder)) if name.isdecimal()]
    except FileNotFoundError:
        # It has none.
        return found
    return found[:_MOST_GROUPS]


def block_volumes(vmi: VirtualMachineInstance) -> list[str]:
    """The volumes whose claims are block devices of the launcher's Pod: their nodes have the volumes' names."""
    modes = {
        entry.name: entry.persistent_volume_claim_info.volume_mode
        for entry in vmi.status.volume_status
        if entry.persistent_volume_claim_info is not None
    }
    return [
        volume.name for volume in vmi.spec.volumes if modes.get(volume.name) == BLOCK and not is_hotpluggable(volume)
    ]


def _is_usable(facts: os.stat_result) -> bool:
    mode = facts.st_mode
    if facts.st_uid == LAUNCHER_UID:
        needed = stat.S_IRUSR | stat.S_IWUSR
    elif facts.st_gid == LAUNCHER_GID:
        needed = stat.S_IRGRP | stat.S_IWGRP
    else:
        needed = stat.S_IROTH | stat.S_IWOTH
    return mode & needed == needed
