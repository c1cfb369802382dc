"""The file systems of volumes that are devices of the host's: made, grown, mounted and unmounted.

Called by the thin driver. A volume is a directory in its file system and not the top: where nothing is mounted there is
no such directory, and nobody writes below a mount point. Touches the devices and mount points that it is given.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.runtime.linux.mounts import MS_NODEV, MS_NOSUID, mount, unmount
from kvedge.storage.volumes.lvm_programs import LvmPrograms

# Where in its file system a volume is.
DATA: Final = "data"
# The group may write, and what it makes belongs to it, as with an fsGroup; nobody else sees anything.
_VOLUME_MODE: Final = 0o2770
# What a guest trims goes back to the pool; inode tables are not filled with zeros, which would take room.
_OPTIONS: Final = "discard,noinit_itable"


def make_file_system(programs: LvmPrograms, device: Path) -> None:
    """Make ext4 on a device of zeros, with the directory of the volume in it.

    Raises:
        VolumeDriverError: it could not be made.
        OSError: as the file system has it.
    """
    with tempfile.TemporaryDirectory() as name:
        data = Path(name, DATA)
        data.mkdir()
        os.chown(data, LAUNCHER_UID, LAUNCHER_GID)
        data.chmod(_VOLUME_MODE)
        # No part is kept for root; what is zeros already is not written.
        extended = "nodiscard,lazy_itable_init=1,lazy_journal_init=1"
        programs.run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", extended, "-d", name, str(device))


def is_mounted(device: Path, top: Path) -> bool:
    """Whether the file system of a device is mounted there."""
    try:
        return os.stat(top).st_dev == os.stat(device).st_rdev
    except FileNotFoundError:
        return False


def mount_volume(programs: LvmPrograms, device: Path, top: Path) -> Path:
    """Mount a file system, let it have the whole of its device, and return the directory of the volume.

    Raises:
        VolumeDriverError: it could not be grown.
        OSError: as the kernel has it.
    """
    if not is_mounted(device, top):
        top.mkdir(mode=0o711, parents=True, exist_ok=True)
        try:
            mount(str(device), top, "ext4", MS_NOSUID | MS_NODEV, _OPTIONS)
        except OSError:
            with suppress(OSError):
                top.rmdir()
            raise
        grow_file_system(programs, device)
    return top / DATA


def grow_file_system(programs: LvmPrograms, device: Path) -> None:
    """Let a mounted file system have the whole of its device.

    Raises:
        VolumeDriverError: it could not be grown.
    """
    programs.run("resize2fs", str(device))


def unmount_volume(top: Path) -> None:
    """Take back what was mounted there, if anything was.

    Raises:
        OSError: somebody uses it.
    """
    if os.path.ismount(top):
        unmount(top)
    with suppress(FileNotFoundError):
        top.rmdir()
