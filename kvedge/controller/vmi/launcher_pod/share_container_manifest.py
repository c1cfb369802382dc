"""The containers of a launcher Pod that share directories with the guest by virtiofs, one for each, as in KubeVirt.

Called by the Pod's manifest. Pure. Such a container sees the host's programs, its one directory, and the place of its
socket. It runs virtiofsd beside the launcher and not below it: the guest keeps its directory when the launcher is
started again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.controller.confinement import make_container_context
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.launcher_pod.disk_container_manifest import HOST_USR
from kvedge.controller.vmi.launcher_pod.pod_volume_names import free_name
from kvedge.resources.configuration.support_containers import VIRTIOFS, support_resources
from kvedge.resources.disks.shared_directories import SHARES_VOLUME, shared_directory, shared_volumes
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus
from kvedge.resources.names import LAUNCHER_IMAGE, SHARES_DIRECTORY
from kvedge.resources.types.core import Container, EmptyDirVolume, PodVolume, ResourceRequirements, VolumeMount
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
        _container(free_name(f"{_PREFIX}{name}"[:_LONGEST_NAME].rstrip("-"), taken), config, name, mounts, resources)
        for name, mounts in _find_mounts(vmi, places)
    ]


def _find_mounts(
    vmi: VirtualMachineInstance, places: Mapping[str, VolumeMount]
) -> Iterator[tuple[str, list[VolumeMount]]]:
    """The names of the volumes, with what their containers see: the last mount is that of the directory."""
    programs = [mount for mount in places.values() if mount.name == HOST_USR or mount.name.startswith("program-")]
    for _, volume in shared_volumes(vmi.spec):
        directory = shared_directory(volume)
        if directory is not None and directory in places:
            yield volume.name, [*programs, places[SHARES_DIRECTORY], places[directory]]


def _container(
    name: str, config: ClusterConfig, volume: str, mounts: list[VolumeMount], resources: ResourceRequirements
) -> Container:
    return Container(
        name=name,
        image=LAUNCHER_IMAGE,
        image_pull_policy="Never",
        command=[*config.program, "launcher-share", volume, mounts[-1].mount_path, SHARES_DIRECTORY],
        resources=resources,
        volume_mounts=mounts,
        # QEMU's own virtiofsd, which Debian 12 has, is confined in a user namespace that is made here: the default
        # filters of runtimes let nobody without privileges do so. Once it serves, it has a narrower one of its own.
        security_context=make_container_context(makes_namespaces=True),
    )
