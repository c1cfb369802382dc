"""How this host is: the fill of its local file systems, its memory, its clock, KVM, and its certificate's end.

Called by the node loop, which writes it on the Node with each heartbeat. Reads /proc, statvfs of local file systems and
the handler's kubeconfig. File systems of a network are left alone: one that hangs would hang the heartbeat with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.kube.credentials.client_certificate import end_of
from kvedge.kube.credentials.connection_settings import from_kubeconfig
from kvedge.kube.credentials.service_account import ServiceAccountError
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
from kvedge.resources.alarms.node_health import MOST_PLACES, Kvm, NodeHealth
from kvedge.runtime.clock import rfc3339
from kvedge.runtime.linux.clock import is_clock_synchronized
from kvedge.runtime.linux.meminfo import read_meminfo
from kvedge.runtime.mount_table import Mount, mount_table, parse_mounts

_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "vfat", "tmpfs"})
# Below the directory of a Pod: the volume's plugin, its PersistentVolume, and with CSI one directory more.
_VOLUME: Final = re.compile(r"[^/]+/volumes/kubernetes\.io~[^/]+/(?P<name>[^/]+)(/mount)?")
_KVM: Final = Path("/dev/kvm")


class HostHealth:
    """Looks at one host. What cannot be read is left out."""

    def __init__(
        self,
        places: Iterable[Path],
        pods: Path,
        kubeconfig: Path,
        kvm: Callable[[], Kvm],
        table: Callable[[], str] = mount_table,
    ) -> None:
        """`places` are directories of the host whose file systems count; `pods` is where the kubelet has its Pods."""
        self._places = tuple(places)
        self._pods = pods
        self._kubeconfig = kubeconfig
        self._kvm = kvm
        self._table = table
        # The kubeconfig as it was when its certificate was read, and that certificate's end.
        self._certificate: tuple[tuple[int, int], str] | None = None

    def read(self) -> NodeHealth:
        """How it is now."""
        mounts: list[Mount] = []
        with suppress(OSError):
            mounts = list(parse_mounts(self._table()))
        seen: set[int] = set()
        # Told of by the place where each is mounted.
        by_target = {str(mount.target): mount for mount in mounts}
        found = (_mount_of(place, by_target) for place in self._places)
        disks = _fills({str(mount.target): mount.target for mount in found if mount is not None}, mounts, seen)
        volumes = _fills(dict(_find_volumes(mounts, self._pods)), mounts, seen)
        return NodeHealth(
            disks=disks,
            volumes=volumes,
            memory=_free_memory(),
            clock=is_clock_synchronized(),
            kvm=self._kvm(),
            certificate_end=self._find_end(),
        )

    def _find_end(self) -> str:
        try:
            status = self._kubeconfig.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if self._certificate is None or self._certificate[0] != stamp:
                shown = from_kubeconfig(self._kubeconfig).certificate
                end = None if shown is None else end_of(shown.pem)
                self._certificate = stamp, "" if end is None else rfc3339(end)
        except (OSError, KubeconfigError, ServiceAccountError):
            return ""
        return self._certificate[1]


def find_kvm(*, emulation: bool, is_wanted: bool) -> Kvm:
    """What guests of this node have: `emulation` is what they run on, `is_wanted` whether the operator wants that."""
    if emulation:
        return "off" if is_wanted else "no"
    return "yes" if _KVM.exists() else "no"


def _find_volumes(mounts: Iterable[Mount], pods: Path) -> Iterable[tuple[str, Path]]:
    """PersistentVolumes that are mounted for Pods, by name; the table has real paths."""
    root = f"{os.path.realpath(pods)}/"
    for mount in mounts:
        path = str(mount.target)
        match = _VOLUME.fullmatch(path.removeprefix(root)) if path.startswith(root) else None
        if match is not None:
            yield match["name"], mount.target


def _fills(places: Mapping[str, Path], mounts: Iterable[Mount], seen: set[int]) -> dict[str, int]:
    """By place how full its file system is, in percent; each file system once, those in `seen` not again."""
    by_target = {str(mount.target): mount for mount in mounts}
    found: dict[str, int] = {}
    for name, path in sorted(places.items()):
        mount = _mount_of(path, by_target)
        if mount is None or mount.kind not in _LOCAL or len(found) >= MOST_PLACES:
            continue
        device, fill = _measure(path)
        if fill is not None and device not in seen:
            seen.add(device)
            found[name] = fill
    return found


def _measure(path: Path) -> tuple[int, int | None]:
    """The device of a file system, and how full it is: as df has it, what root alone may still take counts as taken."""
    try:
        device, numbers = path.stat().st_dev, os.statvfs(path)
    except OSError:
        return 0, None
    usable = numbers.f_blocks - numbers.f_bfree + numbers.f_bavail
    return device, round(100 * (1 - numbers.f_bavail / usable)) if usable > 0 else None


def _mount_of(path: Path, by_target: Mapping[str, Mount]) -> Mount | None:
    """What a path lies on, without touching it: a path on a network that hangs would not answer."""
    for each in (path, *path.parents):
        if (mount := by_target.get(str(each))) is not None:
            return mount
    return None


def _free_memory() -> int | None:
    """The percentage that the kernel says can still be had."""
    try:
        sizes = read_meminfo()
        return round(100 * sizes["MemAvailable"] / sizes["MemTotal"])
    except (OSError, KeyError, ValueError, ZeroDivisionError):
        return None
