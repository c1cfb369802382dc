"""The claims of a Pod: where the volume of each is on this host, once it is bound.

Called when a Pod's volumes are set up. Touches the group and mode of a file system's top, as an fsGroup asks, never
what lies below a top that is right already; the links to a Pod's devices; and a hostPath that its volume asks to have
made.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from kvedge.resources.types.core import PersistentVolumeClaimVolume, Pod
from kvedge.resources.types.storage import BLOCK, PersistentVolume, PersistentVolumeClaim
from kvedge.standalone.agent.pod.place.host_paths import HostPathError, prepare_host_path
from kvedge.storage.volumes.device_links import leads_to_own
from kvedge.storage.volumes.volume_driver import DEVICES

# The mode bits that an fsGroup adds to a directory, and to a file.
_GROUP_DIRECTORY: Final = 0o2070
_GROUP_FILE: Final = 0o060
_MADE: Final = "DirectoryOrCreate"


class ClaimError(Exception):
    """A claim cannot be used (yet); the text is for a FailedMount event."""


class ClaimReader(Protocol):
    """Where claims and volumes come from."""

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """The claim, or None."""

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        """The volume, or None."""


def claim_path(pod: Pod, wanted: PersistentVolumeClaimVolume, reader: ClaimReader) -> str:
    """Where the volume of a claim is: its directory, or its device.

    Raises:
        ClaimError: the claim is not there, not bound, or its volume is not on this host.
        OSError: as the file system has it.
    """
    volume = _find_bound_volume(pod, wanted, reader)
    path = _local_path(volume)
    if volume.spec.volume_mode == BLOCK:
        if not stat.S_ISBLK(path.stat().st_mode):
            raise ClaimError(f"{path} of volume {volume.metadata.name} is not a block device")
        if path.parent == DEVICES and not leads_to_own(path):
            raise ClaimError(f"{path} of volume {volume.metadata.name} leads to another device: it is put right soon")
        return str(path)
    if not path.is_dir():
        raise ClaimError(f"{path} of volume {volume.metadata.name} is not a directory")
    context = pod.spec.security_context
    # As Kubernetes has it: a hostPath keeps its owners.
    if context is not None and context.fs_group is not None and volume.spec.local and not wanted.read_only:
        _give_to_group(path, context.fs_group)
    return str(path)


def is_device(path: str) -> bool:
    """Whether what a claim led to is a device and not a directory."""
    return stat.S_ISBLK(os.stat(path).st_mode)


def link_device(link: Path, device: str) -> None:
    """Have a link lead to a device, as the kubelet has one for each block claim of a Pod; may be repeated.

    Raises:
        OSError: as the file system has it.
    """
    # The handler believes none that others may write, whatever the umask is.
    for directory in (link.parent.parent, link.parent):
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        link.unlink()
    link.symlink_to(device)


def _find_bound_volume(pod: Pod, wanted: PersistentVolumeClaimVolume, reader: ClaimReader) -> PersistentVolume:
    name = wanted.claim_name
    claim = reader.claim(pod.metadata.namespace, name)
    if claim is None:
        raise ClaimError(f'persistentvolumeclaim "{name}" not found')
    if claim.status.phase != "Bound" or not claim.spec.volume_name:
        raise ClaimError(
            f'persistentvolumeclaim "{name}" is not bound (phase {claim.status.phase or "Pending"}): '
            f"kubectl describe pvc {name} says what it waits for"
        )
    volume = reader.persistent_volume(claim.spec.volume_name)
    if volume is None:
        raise ClaimError(f'persistentvolume "{claim.spec.volume_name}" of claim "{name}" not found')
    ref = volume.spec.claim_ref
    if ref is None or ref.uid != claim.metadata.uid:
        raise ClaimError(f'persistentvolume "{volume.metadata.name}" is not bound to claim "{name}"')
    return volume


def _local_path(volume: PersistentVolume) -> Path:
    source = volume.spec.local or volume.spec.host_path
    name = volume.metadata.name
    if source is None:
        raise ClaimError(f"kvedge has no volume plugin for persistentvolume {name}: use local or hostPath")
    path = Path(source.path)
    if not path.is_absolute() or ".." in path.parts:
        raise ClaimError(f"path {path} of persistentvolume {name} must be absolute and without ..")
    kind = volume.spec.host_path.type if volume.spec.host_path is not None and volume.spec.local is None else None
    if not path.exists() and kind != _MADE:
        raise ClaimError(f"{path} of persistentvolume {name} is not there: mount its disk, or restore it")
    # Of a block device it is said below what it is.
    if kind and volume.spec.volume_mode != BLOCK:
        try:
            prepare_host_path(path, kind)
        except HostPathError as error:
            raise ClaimError(f"persistentvolume {name}: {error}") from error
    return path


def _give_to_group(top: Path, group: int) -> None:
    """Let a group write everything, unless the top says that it may already: going through all takes long."""
    facts = top.stat()
    if facts.st_gid == group and facts.st_mode & _GROUP_DIRECTORY == _GROUP_DIRECTORY:
        return
    # The top comes last: what was interrupted is begun again.
    for directory, name, found in _walk_below(top):
        os.chown(name, -1, group, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            continue
        more = _GROUP_DIRECTORY if stat.S_ISDIR(found.st_mode) else _GROUP_FILE
        opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            if os.fstat(opened).st_ino == found.st_ino:
                os.chmod(f"/proc/self/fd/{opened}", stat.S_IMODE(found.st_mode) | more)
        finally:
            os.close(opened)
    os.chown(top, -1, group)
    top.chmod(stat.S_IMODE(facts.st_mode) | _GROUP_DIRECTORY)


def _walk_below(top: Path) -> Iterator[tuple[int, str, os.stat_result]]:
    """Everything below a directory, no link followed: a descriptor of where it lies, its name, its facts."""
    for _, directories, files, descriptor in os.fwalk(top):
        for name in (*directories, *files):
            yield descriptor, name, os.stat(name, dir_fd=descriptor, follow_symlinks=False)
