"""The files of a mounted ConfigMap, Secret or their like, as an ISO for the guest.

Called by `disks`. Reads what the kubelet has mounted, of one version, in bounded memory; writes the one image.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from kvedge.launcher.disks.disk_plan import ConfigDiskPlan
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.storage.beneath import AS_ROOT, hold_directory, hold_open_beneath

# Where the kubelet keeps the present version of such a volume; the entries beside it are links into it.
_DATA: Final = "..data"
# Kubernetes takes 1 MiB for each object, and base64 or a projection of several a little more.
LARGEST_BYTES: Final = 4 << 20
MOST_FILES: Final = 10_000
_ANSWER_FILES: Final = ("autounattend.xml", "unattend.xml")


def write_config_disk(plan: ConfigDiskPlan) -> None:
    """Make the image, unless a launcher before this one in the Pod has: the guest sees no later change of the object.

    Raises:
        BadRequest: when the files are not there, are too many, or are none of an answer file's names for sysprep.
        OSError: when the image cannot be written.
    """
    # Loaded by the launchers that need it: an ISO writer is 5 MB.
    from kvedge.launcher.cloudinit.iso import IsoError, write_iso

    if os.path.exists(plan.path):
        return
    files = read_files(plan.directory, plan.field)
    if plan.needs_answer_file and not any(name.lower() in _ANSWER_FILES for name in files):
        first, second = _ANSWER_FILES
        text = f"Sysprep drive should contain {first} or {second} but neither were found."
        raise BadRequest(plan.field, text, f"add a key {first} to the object")
    try:
        write_iso(plan.path, plan.label, files, private=plan.private)
    except IsoError as error:
        raise BadRequest(plan.field, error.reason, "use other keys, or another volumeLabel") from error


def read_files(directory: str, field: str) -> Mapping[str, bytes]:
    """The content of each file by its path in the volume; empty for an optional object that is not there.

    Raises:
        BadRequest: when nothing is mounted, or more than an object can hold.
    """
    try:
        with hold_directory(directory) as root, _open_version(root) as version:
            return _read(version, field)
    except FileNotFoundError as error:
        raise BadRequest(field, f"its files are not mounted at {directory}") from error


def _open_version(root: int) -> AbstractContextManager[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY
    there = _DATA in os.listdir(f"/proc/self/fd/{root}")
    # The link is the kubelet's own and leads to a directory beside it.
    return hold_open_beneath(root, _DATA if there else ".", flags, resolve=AS_ROOT)


def _read(version: int, field: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = LARGEST_BYTES
    for folder, _, names, directory in os.fwalk(".", dir_fd=version, follow_symlinks=False):
        for name in sorted(names):
            content = _read_content(directory, name, left + 1)
            left -= len(content)
            if left < 0 or len(found) >= MOST_FILES:
                raise BadRequest(field, f"its files are more than {MOST_FILES}, or larger than {LARGEST_BYTES} bytes")
            found[os.path.normpath(f"{folder}/{name}")] = content
    return found


def _read_content(directory: int, name: str, most: int) -> bytes:
    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    with open(opened, "rb") as file:
        return file.read(most)
