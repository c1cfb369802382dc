"""Volumes `containerPath`: directories that others mount into a launcher's container, and the guest has by virtiofs.

Used by admission, which looks at Pods once all webhooks have changed them, and by the controller, which makes the
containers. Pure. A mutating webhook of the site (of a secrets manager, of a cloud's identities) mounts a volume into
the container `compute`; kvedge's own gives the same volume to the container that serves it. Such a container says by a
variable which path of the launcher's it is to have, and lacks a mount at its directory until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kvedge.resources.names import COMPUTE_CONTAINER

if TYPE_CHECKING:
    from kvedge.resources.types.core import Container, Pod, PodVolume, VolumeMount
    from kvedge.resources.types.vmi import VirtualMachineInstanceSpec

# Of the container that serves a path.
PATH_VARIABLE: Final = "CONTAINER_PATH"
# Where such a container has the directory: webhooks that mount into all containers do so at the path itself.
PATH_DIRECTORY: Final = "/virtiofs-data"
# The launcher's own places, none of which is a guest's; KubeVirt's prefixes.
RESERVED_PREFIXES: Final = ("/var/run/kubevirt", "/var/run/libvirt")
# KubeVirt's words.
GATE_IS_OFF: Final = "VMI has ContainerPath volumes but the ContainerPathVolumes feature gate is disabled"
# What Kubernetes itself fills: nobody has put links into it that lead out. An emptyDir is the Pod's own.
_KINDS: Final = ("config_map", "secret", "projected", "downward_api", "empty_dir")
_KIND_WORDS: Final = "configMap, secret, projected, downwardAPI or emptyDir"


class PathMount(NamedTuple):
    """What the container at this place in the Pod's list is to mount."""

    container: int
    volume: str
    sub_path: str


class PathTrouble(NamedTuple):
    """A container that cannot have its path, and why."""

    container: str
    why: str


def has_container_paths(spec: VirtualMachineInstanceSpec) -> bool:
    """Whether a VMI has such a volume."""
    return any(volume.container_path is not None for volume in spec.volumes)


def find_path_mounts(pod: Pod) -> tuple[list[PathMount], list[PathTrouble]]:
    """The mounts that containers of the Pod still lack, and the containers that cannot have theirs."""
    mounts, troubles = [], []
    for index, container, path in _list_lacking(pod):
        source, why = _find_source(pod, path)
        if source is None:
            troubles.append(PathTrouble(container.name, why))
        else:
            mounts.append(PathMount(index, source.name, _join(source, path)))
    return mounts, troubles


def _list_lacking(pod: Pod) -> Iterator[tuple[int, Container, str]]:
    for index, container in enumerate(pod.spec.containers):
        path = next((entry.value for entry in container.env if entry.name == PATH_VARIABLE), "")
        if path and all(mount.mount_path != PATH_DIRECTORY for mount in container.volume_mounts):
            yield index, container, path


def _find_source(pod: Pod, path: str) -> tuple[VolumeMount | None, str]:
    """The mount of the launcher's container that a path is in; else why there is none."""
    compute = next((container for container in pod.spec.containers if container.name == COMPUTE_CONTAINER), None)
    found = None if compute is None else _find_mount(compute.volume_mounts, path)
    if found is None:
        return None, f"no volume is mounted at {path} in the container {COMPUTE_CONTAINER}"
    volume = next((volume for volume in pod.spec.volumes if volume.name == found.name), None)
    if volume is None or not _is_supported(volume):
        return None, f"volume {found.name} at {path} is none of {_KIND_WORDS}"
    if found.sub_path_expr:
        return None, f"volume {found.name} at {path} is mounted by subPathExpr"
    return found, ""


def _find_mount(mounts: Sequence[VolumeMount], path: str) -> VolumeMount | None:
    """The one that is nearest above the path."""
    above = [mount for mount in mounts if path == _plain(mount) or path.startswith(f"{_plain(mount)}/")]
    return max(above, key=lambda mount: len(_plain(mount)), default=None)


def _plain(mount: VolumeMount) -> str:
    return mount.mount_path.rstrip("/")


def _join(mount: VolumeMount, path: str) -> str:
    """The part of the volume: of a mount that shows a part itself, a part of that."""
    rest = path.removeprefix(_plain(mount)).lstrip("/")
    return "/".join(part for part in (mount.sub_path.strip("/"), rest) if part)


def _is_supported(volume: PodVolume) -> bool:
    return any(getattr(volume, kind) is not None for kind in _KINDS)
