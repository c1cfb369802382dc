"""Which block devices a launcher's container may open: rules of its device cgroup.

Called by `volume_hand_over`. In version 1 a rule is a line. In version 2 it is a program of the container runtime's: a
container with such a program is refused in words, as the whole program would have to be replaced. A host without either
(one box, whose containers are in no device cgroup) needs no rule.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kvedge.handler.held_process import HeldProcess
from kvedge.runtime.linux.cgroup_devices import device_programs
from kvedge.runtime.mount_table import mount_table, parse_mounts
from kvedge.storage.beneath import AS_ROOT, beneath, directory_of

_ALL: Final = "a *:* rwm"
_ACCESS: Final = "rw"


class DeviceNotAllowed(OSError):
    """The launcher's container cannot be allowed a device; the text is for the user."""


def allow_device(launcher: HeldProcess, device: int) -> None:
    """Let the launcher's container open a block device; may be repeated.

    Raises:
        DeviceNotAllowed: on a host where kvedge cannot give such a rule.
        OSError: when the kernel refuses.
    """
    folder = devices_folder(launcher.text("cgroup"), mount_table())
    if folder is not None:
        _write(folder, "devices.allow", rule(device))
    elif has_programs(launcher):
        raise DeviceNotAllowed(
            "the launcher's container is confined to its devices by a program of cgroup version 2, which kvedge cannot"
            " extend yet; use a claim of mode Filesystem, or add the volume while the VM is stopped"
        )


def deny_device(launcher: HeldProcess, device: int) -> None:
    """Take such a rule away again; may be repeated."""
    folder = devices_folder(launcher.text("cgroup"), mount_table())
    if folder is not None:
        _write(folder, "devices.deny", rule(device))


def rule(device: int) -> str:
    """A rule of version 1 for a block device."""
    return f"b {os.major(device)}:{os.minor(device)} {_ACCESS}"


def devices_folder(cgroups: str, mounts: str) -> tuple[Path, str] | None:
    """The hierarchy of version 1 and the process's cgroup in it; None where nothing confines it.

    `cgroups` is the text of its /proc/PID/cgroup, `mounts` that of /proc/self/mountinfo.
    """
    path = next(
        (
            rest
            for line in cgroups.splitlines()
            for _, names, rest in [line.split(":", 2)]
            if "devices" in names.split(",")
        ),
        None,
    )
    root = next(
        (item.target for item in parse_mounts(mounts) if item.kind == "cgroup" and "devices" in item.options), None
    )
    return None if path is None or root is None else (root, path.lstrip("/") or ".")


def has_programs(launcher: HeldProcess) -> bool:
    """Whether a program of version 2 decides on the process's devices."""
    path = next((line[3:] for line in launcher.text("cgroup").splitlines() if line.startswith("0::")), None)
    root = next((item.target for item in parse_mounts(mount_table()) if item.kind == "cgroup2"), None)
    if path is None or root is None:
        return False
    with directory_of(root) as top, beneath(top, path.lstrip("/") or ".", os.O_RDONLY | os.O_DIRECTORY) as folder:
        return device_programs(folder) > 0


def _write(folder: tuple[Path, str], file: str, text: str) -> None:
    root, path = folder
    with directory_of(root) as top, beneath(top, path, os.O_PATH | os.O_DIRECTORY, resolve=AS_ROOT) as directory:
        with beneath(directory, "devices.list", os.O_RDONLY) as opened, open(os.dup(opened)) as listed:
            if _ALL in listed.read().splitlines():
                # Nothing confines it: one box has its containers in no such cgroup.
                return
        with beneath(directory, file, os.O_WRONLY) as opened:
            os.write(opened, text.encode())
