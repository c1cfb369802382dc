"""Removing a Pod's directory, and telling one of ours that has lost its record from somebody else's.

Called by the Pod loop, by adoption and by the removal of everything. A kubelet names its Pods' directories as we do:
where no record says that a Pod is ours, only what this agent makes is taken for its work, and nothing is ever removed
that could lead into another file system.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from kvedge.runtime.damaged_files import is_aside
from kvedge.runtime.mount_table import mounts_within
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.place.pod_volumes import tear_down_volumes

_FILES: Final = frozenset({"pod.json", "etc-hosts", "resolv.conf"})
_DIRECTORIES: Final = frozenset({"containers", "volumes", "volumeDevices", "logs"})
# A file that `write_whole` has not renamed yet.
_UNFINISHED: Final = ".new"
_STAGE: Final = ".root"
_VOLUMES: Final = ("empty-dir", "secret", "configmap", "downward-api", "projected")
_PLUGINS: Final = frozenset(f"kubernetes.io~{plugin}" for plugin in _VOLUMES)
_DEVICES: Final = "kubernetes.io~local-volume"


def foreign_part(files: PodFiles) -> Path | None:
    """What shows that a directory without a record may be another program's, or leads to another file system.

    Raises:
        OSError: as the file system has it.
    """
    if files.path.is_symlink():
        return files.path
    return next(chain(mounts_within(files.path), _not_made_by_us(files)), None)


def explain_remains(files: PodFiles, part: Path) -> str:
    """What to say of a directory that is not removed for that reason."""
    return (
        f"{files.path} has no record of kvedge's and is left as it is, because of {part}: when no other program needs"
        " it, unmount what is mounted there and remove it"
    )


def remove_pod_directory(files: PodFiles) -> None:
    """Remove a Pod's volumes and its whole directory; its absence is no error.

    Raises:
        OSError: as the file system has it, or when something is mounted there that is no volume's.
    """
    tear_down_volumes(files)
    if not files.path.exists():
        return
    for mounted in mounts_within(files.path):
        raise OSError(errno.EBUSY, "something is mounted there", str(mounted))
    # The record goes last: until then the next agent knows what this was.
    for entry in sorted(files.path.iterdir(), key=lambda entry: entry == files.record):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    files.path.rmdir()


def _not_made_by_us(files: PodFiles) -> Iterator[Path]:
    for entry in sorted(files.path.iterdir()):
        is_directory = entry.is_dir() and not entry.is_symlink()
        known = _DIRECTORIES if is_directory else _FILES
        if is_aside(entry.name):
            continue
        if (entry.name if is_directory else entry.name.removesuffix(_UNFINISHED)) not in known:
            yield entry
    yield from (entry for entry in _entries(files.path / "volumes") if entry.name not in _PLUGINS)
    yield from (entry for entry in _entries(files.devices) if entry.name != _DEVICES)
    # A kubelet has a directory for each container there.
    yield from (entry for entry in _entries(files.path / "containers") if entry.is_dir() and entry.suffix != _STAGE)


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() and not directory.is_symlink() else []
