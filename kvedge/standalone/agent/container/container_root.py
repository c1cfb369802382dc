"""A container's file system: put together in its own mount namespace, where the host never sees it.

Called by the container starter's child. The image may be hostile: every target is resolved by the kernel beneath the
new root, and mounts go from descriptor to descriptor, so that no link can redirect one. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from kvedge.runtime.linux import mounts
from kvedge.storage.beneath import AS_ROOT, STRICT, make_directories, open_beneath

if TYPE_CHECKING:
    from kvedge.standalone.agent.container.container_spec import ContainerSpec, DeviceSpec, MountSpec

_NODES = (("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0))
_DEV_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
)
# As containerd and Docker have it: what tells about, or changes, the host.
_MASKED_FILES = ("kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug")
_MASKED_DIRECTORIES = ("proc/acpi", "proc/asound", "proc/scsi", "sys/firmware", "sys/devices/virtual/powercap")
_READ_ONLY = ("proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger")
_DIRECTORY = os.O_PATH | os.O_DIRECTORY
_PLAIN = mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NODEV


def build_root(spec: ContainerSpec) -> None:
    """Assemble the container's tree and make it the root; to be called in new mount and PID namespaces.

    Raises:
        OSError: with what could not be mounted or made.
    """
    # Changes of the host still arrive (a volume that is mounted later); nothing of ours goes back.
    mounts.mount("", "/", "", mounts.MS_REC | mounts.MS_SLAVE)
    # Opened before anything is covered.
    sources = [(_open_source(mount), mount) for mount in _parents_first(spec["mounts"])]
    nodes = [(os.stat(device["host"]), device) for device in spec["devices"]]
    root_path = _mount_writable_copy(spec)
    root = os.open(root_path, _DIRECTORY)
    _mount_kernel_file_systems(root)
    null = _make_dev(root, spec, nodes)
    for source, mount in sources:
        _mount_volume(root, source, mount)
    _restrict_proc(root, null)
    if not spec["writable_bytes"]:
        mounts.set_mount_attributes(root, mounts.MOUNT_ATTR_RDONLY, recursive=False)
    os.close(root)
    mounts.change_root(root_path)


def _parents_first(mounts: list[MountSpec]) -> list[MountSpec]:
    return sorted(mounts, key=lambda mount: mount["target"].strip("/").count("/"))


def _open_source(mount: MountSpec) -> int:
    """A detached copy of the volume, or of the part of it that `sub_path` names."""
    volume = os.open(mount["source"], os.O_PATH | os.O_CLOEXEC)
    if mount["sub_path"]:
        try:
            part = open_beneath(volume, mount["sub_path"], os.O_PATH, resolve=STRICT)
        except FileNotFoundError:
            # As the kubelet does: a sub path that is not there becomes a directory.
            part = make_directories(volume, mount["sub_path"], mode=0o750, resolve=STRICT)
        os.close(volume)
        volume = part
    copied = mounts.copy_mount(volume)
    os.close(volume)
    attributes = _PLAIN | (mounts.MOUNT_ATTR_RDONLY if mount["read_only"] else 0)
    mounts.set_mount_attributes(copied, attributes, mounts.MS_SLAVE if mount["follow_host"] else mounts.MS_PRIVATE)
    return copied


def _mount_writable_copy(spec: ContainerSpec) -> str:
    """The image's tree below a layer in memory, which takes mount points and what the container writes."""
    # Even a read-only root needs room for mount points.
    size = spec["writable_bytes"] or 1 << 20
    mounts.mount("tmpfs", spec["stage"], "tmpfs", mounts.MS_NOSUID | mounts.MS_NODEV, f"size={size},mode=0755")
    for name in ("upper", "work", "root"):
        os.mkdir(os.path.join(spec["stage"], name), 0o755)
    lower = os.open(spec["root"], _DIRECTORY)
    stage = os.open(spec["stage"], _DIRECTORY)
    # By descriptor: a data directory's name may hold the letters that separate options.
    options = f"lowerdir=/proc/self/fd/{lower},upperdir=/proc/self/fd/{stage}/upper,workdir=/proc/self/fd/{stage}/work"
    root = os.path.join(spec["stage"], "root")
    try:
        mounts.mount("overlay", root, "overlay", mounts.MS_NOSUID | mounts.MS_NODEV, options)
    except OSError as error:
        if error.errno == errno.ENODEV:
            raise OSError(errno.ENODEV, "the kernel has no overlay file system: modprobe overlay", root) from error
        raise
    finally:
        os.close(lower)
        os.close(stage)
    return root


def _mount_at(root: int, path: str, kind: str, flags: int, options: str = "") -> None:
    target = make_directories(root, path, resolve=AS_ROOT)
    mounts.mount(kind, f"/proc/self/fd/{target}", kind, flags, options)
    os.close(target)


def _mount_kernel_file_systems(root: int) -> None:
    plain = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
    _mount_at(root, "proc", "proc", plain)
    _mount_at(root, "sys", "sysfs", plain | mounts.MS_RDONLY)
    _mount_at(root, "dev", "tmpfs", mounts.MS_NOSUID | mounts.MS_NOEXEC, "mode=755,size=65536k")
    _mount_at(
        root, "dev/pts", "devpts", mounts.MS_NOSUID | mounts.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"
    )
    _mount_at(root, "dev/shm", "tmpfs", plain, "mode=1777,size=65536k")
    _mount_at(root, "dev/mqueue", "mqueue", plain)


def _make_dev(root: int, spec: ContainerSpec, nodes: list[tuple[os.stat_result, DeviceSpec]]) -> int:
    """Fill /dev; a descriptor of its null."""
    dev = open_beneath(root, "dev", _DIRECTORY, resolve=AS_ROOT)
    for name, major, minor in _NODES:
        _make_node(dev, name, stat.S_IFCHR, os.makedev(major, minor), 0o666)
    for name, target in _DEV_LINKS:
        os.symlink(target, name, dir_fd=dev)
    for facts, device in nodes:
        relative = device["path"].removeprefix("/dev/")
        parent_path, _, name = relative.rpartition("/")
        parent = make_directories(dev, parent_path or ".", resolve=STRICT)
        if name in os.listdir(f"/proc/self/fd/{parent}"):
            os.unlink(name, dir_fd=parent)
        # A node of the Pod's own: the host's keeps its owner and mode.
        _make_node(parent, name, stat.S_IFMT(facts.st_mode), facts.st_rdev, 0o600)
        os.chown(name, spec["uid"], spec["gid"], dir_fd=parent, follow_symlinks=False)
        os.close(parent)
    null = open_beneath(dev, "null", os.O_PATH, resolve=STRICT)
    os.close(dev)
    return null


def _make_node(directory: int, name: str, kind: int, device: int, mode: int) -> None:
    os.mknod(name, kind | mode, device, dir_fd=directory)
    # mknod's mode is cut by the umask.
    os.chmod(f"/proc/self/fd/{directory}/{name}", mode)


def _mount_volume(root: int, source: int, mount: MountSpec) -> None:
    is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
    target = _target_directory(root, mount["target"]) if is_directory else _open_target_file(root, mount["target"])
    mounts.attach_mount(source, target)
    os.close(target)
    os.close(source)


def _target_directory(root: int, path: str) -> int:
    try:
        return make_directories(root, path, resolve=AS_ROOT)
    except OSError as error:
        raise OSError(error.errno, f"cannot make the mount point: {error.strerror}", path) from error


def _open_target_file(root: int, path: str) -> int:
    folder_path, _, name = path.rstrip("/").rpartition("/")
    folder = _target_directory(root, folder_path or ".")
    try:
        # The mount covers the image's own file there.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder))
        return open_beneath(root, path, os.O_PATH, resolve=AS_ROOT)
    finally:
        os.close(folder)


def _restrict_proc(root: int, null: int) -> None:
    for name in _MASKED_FILES:
        _cover_file(root, f"proc/{name}", null)
    for path in _MASKED_DIRECTORIES:
        _cover_directory(root, path)
    for path in _READ_ONLY:
        _make_read_only(root, path)


def _cover_file(root: int, path: str, null: int) -> None:
    try:
        target = open_beneath(root, path, os.O_PATH, resolve=AS_ROOT)
    except FileNotFoundError:
        return
    copied = mounts.copy_mount(null)
    mounts.attach_mount(copied, target)
    os.close(copied)
    os.close(target)


def _cover_directory(root: int, path: str) -> None:
    try:
        target = open_beneath(root, path, _DIRECTORY, resolve=AS_ROOT)
    except FileNotFoundError:
        return
    mounts.mount("tmpfs", f"/proc/self/fd/{target}", "tmpfs", mounts.MS_RDONLY | mounts.MS_NOSUID, "size=0,nr_inodes=1")
    os.close(target)


def _make_read_only(root: int, path: str) -> None:
    try:
        target = open_beneath(root, path, os.O_PATH, resolve=AS_ROOT)
    except FileNotFoundError:
        return
    copied = mounts.copy_mount(target)
    mounts.set_mount_attributes(
        copied, mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_NOEXEC
    )
    mounts.attach_mount(copied, target)
    os.close(copied)
    os.close(target)
