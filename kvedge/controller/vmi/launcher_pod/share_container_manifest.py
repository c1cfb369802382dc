"""The containers of a launcher Pod that share directories with the guest by virtiofs, one for each, as in KubeVirt.

Called by the Pod's manifest. Pure. Such a container sees the host's programs, its one directory, and the place of its
socket. It runs virtiofsd beside the launcher and not below it: the guest keeps its directory when the launcher is
started again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from kvedge.controller.confinement import make_container_context
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.launcher_pod.disk_container_manifest import HOST_USR
from kvedge.controller.vmi.launcher_pod.pod_volume_names import free_name
from kvedge.resources.configuration.support_containers import VIRTIOFS, support_resources
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus
from kvedge.resources.names import LAUNCHER_IMAGE, SHARES_DIRECTORY
from kvedge.resources.shares.container_paths import PATH_DIRECTORY, PATH_VARIABLE
from kvedge.resources.shares.shared_directories import SHARES_VOLUME, shared_directory, shared_volumes
from kvedge.resources.types.core import (
    Container,
    EmptyDirVolume,
    EnvVar,
    PodVolume,
    ResourceRequirements,
    VolumeMount,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import Quantity

# KubeVirt's names of these containers.
_PREFIX: Final = "virtiofs-"
_LONGEST_NAME: Final = 63
# KubeVirt's request of CPU. It requests 1M of memory; 4 MiB of QEMU's virtiofsd were seen, and 12 of what waits for a
# QEMU to come.
_REQUESTS: Final[dict[str, Quantity]] = {"cpu": "10m", "memory": "16M"}
# KubeVirt's, which it always sets. Here a container has them where the launcher's has one: a tenth of a CPU is slow,
# and pages of the guest that virtiofsd is the first to touch count as its own.
SHARE_LIMITS: Final[dict[str, Quantity]] = {"cpu": "100m", "memory": "80M"}


def shares_volumes(vmi: VirtualMachineInstance) -> list[tuple[PodVolume, VolumeMount]]:
    """Where these containers and the launcher meet; nothing for a guest without such directories."""
    if not any(True for _ in shared_volumes(vmi.spec)):
        return []
    return [
        (
            PodVolume(name=SHARES_VOLUME, empty_dir=EmptyDirVolume()),
            VolumeMount(name=SHARES_VOLUME, mount_path=SHARES_DIRECTORY),
        )
    ]


def share_containers(vmi: VirtualMachineInstance, config: ClusterConfig, compute: Container) -> list[Container]:
    """One for each directory; `compute` is the launcher's container."""
    places = {mount.mount_path: mount for mount in compute.volume_mounts}
    limits = {name: amount for name, amount in SHARE_LIMITS.items() if name in compute.resources.limits}
    guaranteed = has_dedicated_cpus(vmi.spec.domain)
    resources = support_resources(config.support, VIRTIOFS, _REQUESTS, limits, guaranteed=guaranteed)
    taken: set[str] = set()
    return [
        _container(free_name(f"{_PREFIX}{share.name}"[:_LONGEST_NAME].rstrip("-"), taken), config, share, resources)
        for share in _find_shares(vmi, places)
    ]


class _Share(Struct, frozen=True):
    """A volume's name, where its container has it, what it mounts, and the launcher's path that it is to be."""

    name: str
    directory: str
    mounts: list[VolumeMount]
    path: str = ""


def _find_shares(vmi: VirtualMachineInstance, places: Mapping[str, VolumeMount]) -> Iterator[_Share]:
    shared = [mount for mount in places.values() if mount.name == HOST_USR or mount.name.startswith("program-")]
    for _, volume in shared_volumes(vmi.spec):
        directory = shared_directory(volume)
        if volume.container_path is not None:
            # What is mounted there is known when all webhooks have seen the Pod: the last one mounts it here as well.
            path = volume.container_path.path.rstrip("/")
            yield _Share(volume.name, PATH_DIRECTORY, [*shared, places[SHARES_DIRECTORY]], path)
        elif directory is not None and directory in places:
            yield _Share(volume.name, directory, [*shared, places[SHARES_DIRECTORY], places[directory]])


def _container(name: str, config: ClusterConfig, share: _Share, resources: ResourceRequirements) -> Container:
    return Container(
        name=name,
        image=LAUNCHER_IMAGE,
        image_pull_policy="Never",
        command=[*config.program, "launcher-share", share.name, share.directory, SHARES_DIRECTORY],
        env=[EnvVar(name=PATH_VARIABLE, value=share.path)] if share.path else [],
        resources=resources,
        volume_mounts=share.mounts,
        # QEMU's own virtiofsd, which Debian 12 has, is confined in a user namespace that is made here: the default
        # filters of runtimes let nobody without privileges do so. Once it serves, it has a narrower one of its own.
        security_context=make_container_context(makes_namespaces=True),
    )
