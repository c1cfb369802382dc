"""Nodes of macvtaps in a launcher's /dev: /dev/tapINDEX for each that its guest has, and for no other.

Called by `guest_network` whenever it has looked at the NICs of a Pod. libvirt opens such a node by that name, and takes
no descriptor from anybody. The kernel gives the number of a macvtap that has gone to the next one, which may be another
guest's: a node is taken away with its link, so that no launcher opens what is not its own. Touches the launcher's
/dev and its device cgroup.

A node is made under a name of its own, given to the launcher's user, and renamed; a handler that was killed in between
leaves what the next one takes on.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.volumes.device_rules import CHARACTER, DeviceNotAllowed, allow_device, deny_device
from kvedge.network.binding.macvtap_binding import TapDevice
from kvedge.network.errors import NetworkError
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.storage.beneath import AS_ROOT, hold_open_beneath

_HOST_DEV: Final = Path("/dev")
_NODE: Final = re.compile(r"\.?tap[0-9]+")
_COMING: Final = ".tap"
_MODE: Final = 0o660


def keep_tap_nodes(launcher: HeldProcess, wanted: Iterable[TapDevice], host_dev: Path = _HOST_DEV) -> None:
    """Make the nodes of these devices, and take all others away; cheap when nothing is to do.

    Raises:
        NetworkError: when the launcher cannot be given one.
    """
    devices = {f"tap{device.index}": device.number for device in wanted}
    try:
        with (
            launcher.root() as root,
            hold_open_beneath(root, "dev", os.O_PATH | os.O_DIRECTORY, resolve=AS_ROOT) as folder,
        ):
            if os.fstat(folder).st_dev == host_dev.stat().st_dev:
                # A node of that name may be another guest's there: none is made, and none is taken away.
                if not devices:
                    return
                raise NetworkError(
                    "cannot give a launcher the device of its macvtap",
                    why="its /dev is the host's own",
                    remedy="let the container runtime give the launcher's Pod a /dev of its own",
                )
            for name, facts in _find_present(folder).items():
                # A number that its link has no more is another link's by now, and perhaps another guest's.
                if facts.st_rdev != devices.get(name):
                    _take(launcher, folder, name, facts, denied=facts.st_rdev not in devices.values())
            for name, number in devices.items():
                if not _is_right(folder, name, number):
                    _give(launcher, folder, name, number)
    except DeviceNotAllowed as error:
        raise NetworkError(
            "cannot give a launcher the device of its macvtap",
            why=error.why,
            remedy="have the device plugin of macvtap-cni give it: name its resource in the network's annotation",
        ) from error
    except OSError as error:
        raise NetworkError(
            "cannot give a launcher the device of its macvtap", why=str(error), errno=error.errno or 0
        ) from error


def _find_present(folder: int) -> dict[str, os.stat_result]:
    """What stands there under the names of such nodes, finished or not."""
    with hold_open_beneath(folder, ".", os.O_RDONLY | os.O_DIRECTORY) as opened:
        names = [name for name in os.listdir(opened) if _NODE.fullmatch(name)]
    return {name: os.stat(name, dir_fd=folder, follow_symlinks=False) for name in names}


def _take(launcher: HeldProcess, folder: int, name: str, facts: os.stat_result, *, denied: bool) -> None:
    if denied and stat.S_ISCHR(facts.st_mode):
        deny_device(launcher, facts.st_rdev, CHARACTER)
    os.unlink(name, dir_fd=folder)


def _is_right(folder: int, name: str, number: int) -> bool:
    """Whether the node is there; a node that a container runtime has made becomes the launcher's."""
    try:
        with hold_open_beneath(folder, name, os.O_PATH | os.O_NOFOLLOW) as node:
            facts = os.fstat(node)
            if not stat.S_ISCHR(facts.st_mode) or facts.st_rdev != number:
                return False
            if (facts.st_uid, stat.S_IMODE(facts.st_mode)) != (LAUNCHER_UID, _MODE):
                _own(node)
            return True
    except FileNotFoundError:
        return False


def _give(launcher: HeldProcess, folder: int, name: str, number: int) -> None:
    allow_device(launcher, number, CHARACTER)
    coming = f"{_COMING}{name.removeprefix('tap')}"
    os.mknod(coming, stat.S_IFCHR | 0o600, number, dir_fd=folder)
    with hold_open_beneath(folder, coming, os.O_PATH | os.O_NOFOLLOW) as node:
        _own(node)
    os.rename(coming, name, src_dir_fd=folder, dst_dir_fd=folder)


def _own(node: int) -> None:
    # By descriptor: no name is looked up again.
    os.chown(f"/proc/self/fd/{node}", LAUNCHER_UID, LAUNCHER_GID)
    os.chmod(f"/proc/self/fd/{node}", _MODE)
