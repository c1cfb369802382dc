"""A Pod's volumes on the host, where and as the kubelet would have them.

Called by the Pod loop before a Pod's first container, and again after a restart: each call may be repeated. Touches
the Pod's own directory, tmpfs mounts in it, and hostPaths that a Pod asks to be made.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.resources.types.core import (
    EmptyDirVolume,
    HostPathVolume,
    Pod,
    PodVolume,
)
from kvedge.resources.values.quantities import QuantityError, parse_bytes
from kvedge.runtime.linux.mounts import MNT_DETACH, MS_NODEV, MS_NOSUID, UMOUNT_NOFOLLOW, mount, unmount
from kvedge.runtime.mount_table import mounts_below
from kvedge.standalone.agent.container.atomic_files import BadPath, FileContent, write_files
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.place.claim_volumes import ClaimError, claim_path, is_device, link_device
from kvedge.standalone.agent.pod.place.host_paths import HostPathError, prepare_host_path
from kvedge.standalone.agent.pod.place.volume_files import (
    ObjectReader,
    VolumeError,
    file_mode,
    read_config_map,
    read_downward,
    read_projected,
    read_secret,
)

# The kubelet's mode of an emptyDir, and the bits that fsGroup adds: the group may do all, and new files inside belong
# to it.
_EMPTY_DIR_MODE: Final = 0o777
_GROUP_MODE: Final = 0o2070


def set_up_volumes(pod: Pod, files: PodFiles, images: Mapping[str, Path], reader: ObjectReader) -> dict[str, str]:
    """Make every volume of a Pod; where each is on the host. `images` has the trees of image volumes, by volume.

    Raises:
        VolumeError: when one cannot be made; trying again may help.
    """
    found = {}
    for volume in pod.spec.volumes:
        try:
            found[volume.name] = _set_up(pod, volume, files, images, reader)
        except (OSError, BadPath, ClaimError) as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
        except VolumeError as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
    return found


def tear_down_volumes(files: PodFiles) -> None:
    """Unmount what is mounted in a Pod's volumes directory; remove it with all that is in it, and the links to devices.

    Raises:
        OSError: as the file system has it.
    """
    top = files.path / "volumes"
    _unmount_all(top)
    if top.exists():
        shutil.rmtree(top)
    if files.devices.exists():
        shutil.rmtree(files.devices)


def keep_empty_dirs(files: PodFiles) -> Path | None:
    """Move those emptyDirs of a Pod that hold files out of its directory; where to, None when there are none.

    Beside them lies what the Pod was. May be repeated.

    Raises:
        OSError: as the file system has it.
    """
    # Images and what was in memory would come along.
    _unmount_all(files.path / "volumes")
    there = files.path / "volumes" / "kubernetes.io~empty-dir"
    found = [path for path in sorted(there.glob("*")) if any(names for _, _, names in os.walk(path))]
    if found:
        files.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It may be damaged, or a directory may stand in its place.
        with suppress(FileNotFoundError, IsADirectoryError):
            shutil.copyfile(files.record, files.kept / files.record.name)
    for path in found:
        path.rename(files.kept / path.name)
    return files.kept if files.kept.exists() else None


def _unmount_all(top: Path) -> None:
    for mounted in mounts_below(top):
        _unmount(mounted)
    if mounts_below(top):
        # Removing now would reach into something that is not ours.
        raise OSError(f"something is still mounted below {top}")


def _set_up(pod: Pod, volume: PodVolume, files: PodFiles, images: Mapping[str, Path], reader: ObjectReader) -> str:
    context = pod.spec.security_context
    group = context.fs_group if context else None
    if volume.image is not None:
        return str(images[volume.name])
    if volume.downward_api is not None:
        contents = read_downward(pod, volume.downward_api.items, file_mode(volume.downward_api.default_mode))
        return str(_project(files.volume("downward-api", volume.name), contents, group))
    if volume.projected is not None:
        contents = read_projected(pod, volume.projected, reader)
        target = files.volume("projected", volume.name)
        # Tokens and Secrets may be among them.
        _mount_tmpfs(target, "mode=0755")
        return str(_project(target, contents, group))
    if volume.host_path is not None:
        return _prepare_host_path(volume.host_path)
    if volume.empty_dir is not None:
        return str(_make_empty_dir(files.volume("empty-dir", volume.name), volume.empty_dir, group))
    if volume.secret is not None:
        contents = read_secret(pod, volume, reader)
        target = files.volume("secret", volume.name)
        # Kept in memory, as the kubelet does.
        _mount_tmpfs(target, "mode=0755")
        return str(_project(target, contents, group))
    if volume.config_map is not None:
        contents = read_config_map(pod, volume, reader)
        return str(_project(files.volume("configmap", volume.name), contents, group))
    if volume.persistent_volume_claim is not None:
        path = claim_path(pod, volume.persistent_volume_claim, reader)
        if is_device(path):
            link_device(files.device(volume.name), path)
        return path
    raise VolumeError(
        "kvedge has no volume plugin for it: use hostPath, emptyDir, secret, configMap, persistentVolumeClaim or image"
    )


def _make_empty_dir(path: Path, wanted: EmptyDirVolume, group: int | None) -> Path:
    fresh = not path.is_dir()
    if wanted.medium == "Memory":
        _mount_tmpfs(path, f"mode=0777{_size_option(wanted)}")
    elif wanted.medium not in ("", "HugePages"):
        raise VolumeError(f'unknown storage medium "{wanted.medium}"')
    path.mkdir(parents=True, exist_ok=True)
    if fresh or wanted.medium == "Memory":
        if group is not None:
            os.chown(path, -1, group)
        path.chmod(_EMPTY_DIR_MODE | (_GROUP_MODE if group is not None else 0))
    return path


def _size_option(wanted: EmptyDirVolume) -> str:
    if wanted.size_limit is None:
        return ""
    try:
        return f",size={parse_bytes(wanted.size_limit)}"
    except QuantityError as error:
        raise VolumeError(str(error)) from error


def _project(target: Path, contents: Mapping[str, FileContent], group: int | None) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    target.chmod(0o755)
    if group is not None:
        os.chown(target, -1, group)
    write_files(target, contents, group)
    return target


def _prepare_host_path(wanted: HostPathVolume) -> str:
    path = Path(wanted.path)
    if not path.is_absolute() or ".." in path.parts:
        raise VolumeError(f"hostPath {wanted.path} must be absolute and without ..")
    try:
        prepare_host_path(path, wanted.type)
    except HostPathError as error:
        raise VolumeError(str(error)) from error
    return str(path)


def _mount_tmpfs(path: Path, options: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    if path.stat().st_dev != path.parent.stat().st_dev:
        # Mounted by an earlier call.
        return
    mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options)


def _unmount(path: Path) -> None:
    # Detached even when something looks into it: what is in memory goes with the last who does.
    unmount(path, MNT_DETACH | UMOUNT_NOFOLLOW)
