"""Which devices besides its first a launcher's container may open: rules of its device cgroup.

Called by `volume_hand_over` for block devices, and by `tap_nodes` for those of macvtaps. In version 1 a rule is a line.
In version 2 the container's runtime has attached a program to the container's cgroup: it is replaced by one that asks
our rules first, or refused in words when it cannot be replaced. A host without either (one box, whose containers are in
no device cgroup) needs no rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kvedge.handler.held_process import HeldProcess
from kvedge.runtime.linux.cgroup_devices import ForeignProgram, change_rules, device_programs, find_attached_programs
from kvedge.runtime.linux.device_program import Device
from kvedge.runtime.mount_table import mount_table, parse_mounts
from kvedge.storage.beneath import AS_ROOT, hold_directory, hold_open_beneath

_ALL: Final = "a *:* rwm"
_ACCESS: Final = "rw"
# Kinds of devices.
BLOCK: Final = "b"
CHARACTER: Final = "c"
# crun keeps the processes of a container in a cgroup of this name, below the one that it confines.
_INNER: Final = "container"
_REMEDY: Final = "use a claim of mode Filesystem, or add the volume while the VM is stopped"


class DeviceNotAllowed(OSError):
    """The launcher's container cannot be allowed a device; the text is for the user, with the remedy for a volume."""

    def __init__(self, why: str) -> None:
        """`why` goes without a remedy: another kind of device has another one."""
        super().__init__(f"{why}; {_REMEDY}")
        self.why = why


def allow_device(launcher: HeldProcess, device: int, kind: str = BLOCK) -> None:
    """Let the launcher's container open a device; may be repeated.

    Raises:
        DeviceNotAllowed: on a host where kvedge cannot give such a rule.
        OSError: when the kernel refuses.
    """
    folder = devices_folder(launcher.text("cgroup"), mount_table())
    if folder is not None:
        _write(folder, "devices.allow", make_rule(device, kind))
        return
    path = find_unified_path(launcher.text("cgroup"), mount_table())
    if path is not None:
        allow_in_cgroup(path, device, kind)


def deny_device(launcher: HeldProcess, device: int, kind: str = BLOCK) -> None:
    """Take such a rule away again; may be repeated."""
    folder = devices_folder(launcher.text("cgroup"), mount_table())
    if folder is not None:
        _write(folder, "devices.deny", make_rule(device, kind))
        return
    path = find_unified_path(launcher.text("cgroup"), mount_table())
    if path is not None:
        deny_in_cgroup(path, device, kind)


def allow_in_cgroup(path: tuple[Path, str], device: int, kind: str = BLOCK) -> None:
    """Let a cgroup of version 2 open a device, when programs confine it.

    Raises:
        DeviceNotAllowed: when a program is none that kvedge can add a rule to.
        OSError: when the kernel refuses.
    """
    _change(path, lambda devices: devices | {Device(kind, device)})


def deny_in_cgroup(path: tuple[Path, str], device: int, kind: str = BLOCK) -> None:
    """Take the rule away again; where none could be given, there is none.

    Raises:
        OSError: when the kernel refuses.
    """
    # A program that cannot be extended has no rule of ours.
    with suppress(DeviceNotAllowed):
        _change(path, lambda devices: devices - {Device(kind, device)})


def make_rule(device: int, kind: str = BLOCK) -> str:
    """A rule of version 1 for a device."""
    return f"{kind} {os.major(device)}:{os.minor(device)} {_ACCESS}"


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


def find_unified_path(cgroups: str, mounts: str) -> tuple[Path, str] | None:
    """The hierarchy of version 2 and the process's cgroup in it, from the same texts; None where there is none."""
    path = next((line[3:] for line in cgroups.splitlines() if line.startswith("0::")), None)
    root = next((item.target for item in parse_mounts(mounts) if item.kind == "cgroup2"), None)
    return None if path is None or root is None else (root, path.lstrip("/") or ".")


def _change(path: tuple[Path, str], change: Callable[[frozenset[Device]], frozenset[Device]]) -> None:
    with _hold_confined(path) as cgroup:
        if cgroup is None:
            return
        try:
            change_rules(cgroup, change)
        except ForeignProgram as error:
            raise DeviceNotAllowed(
                f"the launcher's container is confined to its devices by a program of cgroup version 2 that kvedge"
                f" cannot extend ({error.strerror})"
            ) from error


@contextmanager
def _hold_confined(path: tuple[Path, str]) -> Iterator[int | None]:
    """The cgroup of the container that has programs; None when nothing decides on its devices.

    Never one that other containers are in as well: a rule would let them have the device, too.
    """
    root, own = path
    with hold_directory(root) as top, hold_open_beneath(top, own, os.O_RDONLY | os.O_DIRECTORY) as inner:
        deciding = device_programs(inner)
        attached = len(find_attached_programs(inner)[0]) if deciding else 0
        if attached == deciding:
            yield inner if deciding else None
            return
        outer = os.path.dirname(own)
        if not attached and os.path.basename(own) == _INNER and outer:
            with hold_open_beneath(top, outer, os.O_RDONLY | os.O_DIRECTORY) as cgroup:
                if len(find_attached_programs(cgroup)[0]) == deciding:
                    yield cgroup
                    return
        raise DeviceNotAllowed(
            "a cgroup around that of the launcher's container decides on its devices, and on those of other Pods:"
            " kvedge does not change it"
        )


def _write(folder: tuple[Path, str], file: str, text: str) -> None:
    root, path = folder
    with (
        hold_directory(root) as top,
        hold_open_beneath(top, path, os.O_PATH | os.O_DIRECTORY, resolve=AS_ROOT) as directory,
    ):
        with hold_open_beneath(directory, "devices.list", os.O_RDONLY) as opened, open(os.dup(opened)) as listed:
            if _ALL in listed.read().splitlines():
                # Nothing confines it: one box has its containers in no such cgroup.
                return
        with hold_open_beneath(directory, file, os.O_WRONLY) as opened:
            os.write(opened, text.encode())
