"""The one door to the programs of lvm2 and e2fsprogs: each call is bounded in time, and says what went wrong.

Called by the thin driver. Runs the distribution's own programs as root. A program that changes a group is asked to end
and never killed: it may have suspended devices, which only it resumes.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.storage.volumes.lvm_report import (
    GROUP_COLUMNS,
    VOLUME_COLUMNS,
    LogicalVolume,
    VolumeGroup,
    look_at_all,
    mapper_name,
    parse_groups,
    parse_volumes,
    restrict_to,
)
from kvedge.storage.volumes.volume_driver import VolumeDriverError

_ENV: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "LVM_SUPPRESS_FD_WARNINGS": "1"}
# A group whose disks are slow, or whose lock another program of lvm2 has.
_SECONDS: Final = 90.0
_ENDING_SECONDS: Final = 5.0
_REPORT: Final = ("--reportformat", "json", "--units", "b", "--nosuffix")
_MOST_TOLD: Final = 400


class ProgramError(VolumeDriverError):
    """A program failed; the text is its own, shortened."""


class LvmPrograms(Struct, frozen=True):
    """What may be asked of lvm2; `seconds` is how long one call may take."""

    seconds: float = _SECONDS

    def groups(self) -> list[VolumeGroup]:
        """All volume groups of the host.

        Raises:
            VolumeDriverError: they cannot be had.
        """
        return parse_groups(self.run("vgs", "--config", look_at_all(), *_REPORT, "-o", GROUP_COLUMNS))

    def volumes(self, group: VolumeGroup) -> list[LogicalVolume]:
        """All logical volumes of a group.

        Raises:
            VolumeDriverError: they cannot be had, or the group is gone from its devices.
        """
        config = restrict_to(group.devices)
        return parse_volumes(self.run("lvs", "--config", config, *_REPORT, "-a", "-o", VOLUME_COLUMNS, group.name))

    def change(self, group: VolumeGroup, verb: str, *words: str) -> None:
        """Run a verb that changes a group.

        Raises:
            VolumeDriverError: it did not.
        """
        self.run(verb, "--config", restrict_to(group.devices), "-y", *words)

    def node_of(self, group: str, volume: LogicalVolume) -> Path:
        """The device of a volume that is active, under device-mapper's name for it.

        Raises:
            VolumeDriverError: it is not there, or leads elsewhere.
        """
        path = Path("/dev/mapper", mapper_name(group, volume.name))
        try:
            is_its = os.minor(os.stat(path).st_rdev) == volume.minor
        except OSError:
            is_its = False
        if not is_its:
            raise VolumeDriverError(
                f"{path} is not the device of logical volume {group}/{volume.name}: vgscan --mknodes"
            )
        return path

    def run(self, *words: str) -> str:
        """What a program prints.

        Raises:
            ProgramError: it is not there, fails, or does not end in time.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                running = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=_ENV)
            except FileNotFoundError as error:
                raise ProgramError(f"{words[0]} is not there: install {_package_of(words[0])}") from error
            except OSError as error:
                raise ProgramError(f"{words[0]} cannot be run: {error.strerror}") from error
            try:
                status = running.wait(self.seconds)
            except subprocess.TimeoutExpired as error:
                running.terminate()
                with suppress(subprocess.TimeoutExpired):
                    running.wait(_ENDING_SECONDS)
                raise ProgramError(
                    f"{words[0]} did not end within {self.seconds:.0f} s: is another program of lvm2 at work, or a disk"
                    " of the group away? `dmsetup info -c` shows devices that are suspended"
                ) from error
            out.seek(0)
            err.seek(0)
            if status:
                said = " ".join(err.read(64 << 10).decode(errors="replace").split())
                raise ProgramError(f"{words[0]}: {said[-_MOST_TOLD:] or f'ended with {status}'}")
            return out.read().decode(errors="replace")


def _package_of(program: str) -> str:
    return "e2fsprogs" if program in ("mkfs.ext4", "resize2fs") else "lvm2 and thin-provisioning-tools"
