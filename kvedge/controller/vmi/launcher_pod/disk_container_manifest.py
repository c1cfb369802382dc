"""The containers that hold container disks where nodes cannot mount images as volumes.

Called by the Pod's manifest. Pure. Such a container runs nothing of its image: a shell of the host keeps it alive, so
that the handler finds the image's file system in it. It is an init container that goes on (Kubernetes 1.29): it is
there before the launcher, ends after it, and its end does not keep the Pod from being over.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.confinement import make_container_context
from kvedge.resources.configuration.support_containers import CONTAINER_DISK, Support, support_resources
from kvedge.resources.types.core import (
    Container,
    EmptyDirVolume,
    EnvVar,
    HostPathVolume,
    PodVolume,
    VolumeMount,
)
from kvedge.resources.types.image_trees import ImageTree
from kvedge.resources.values.quantities import Quantity

HOST_USR: Final = "host-usr"
# The first process of a container has no default for SIGTERM: without the trap its end would take the grace period.
_STAY: Final = 'trap "exit 0" TERM; while :; do /usr/bin/sleep 86400 & wait $!; done'
# Nothing of what an image says of the environment reaches the shell: some take functions and start-up files from it.
KEEP_ALIVE: Final = ("/usr/bin/env", "-i", "/usr/bin/sh", "-c", _STAY)
# What a program loader obeys before any program does.
_LOADER_SETTINGS: Final = ("GLIBC_TUNABLES", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD")
# An image made from nothing has no program loader. Debian's for amd64 is a link into /lib.
_HOST_LIBRARIES: Final = (("host-lib", "/usr/lib", "/lib"),)
_NO_SETTINGS: Final = "no-settings"
_HOST_LIBRARIES_AMD64: Final = (*_HOST_LIBRARIES, ("host-lib64", "/usr/lib64", "/lib64"))
# KubeVirt's, but for the CPU's limit, which is 10m there: the runtime's own work to start the container counts, and it
# stood still for 0.15 s on a fast machine at 10m, and not at all at 100m. The memory was 3 MB at most.
_REQUESTS: Final[dict[str, Quantity]] = {"cpu": "1m", "memory": "1M", "ephemeral-storage": "50M"}
_LIMITS: Final[dict[str, Quantity]] = {"cpu": "100m", "memory": "40M"}


def host_library_volumes(architecture: str) -> list[PodVolume]:
    """The volumes that such containers need besides the host's /usr, which the launcher has too."""
    host = [
        PodVolume(name=name, host_path=HostPathVolume(path=path, type="Directory"))
        for name, path, _ in _libraries(architecture)
    ]
    return [*host, PodVolume(name=_NO_SETTINGS, empty_dir=EmptyDirVolume())]


def disk_container(
    tree: ImageTree, pull_policy: str, architecture: str, support: Support, *, guaranteed: bool = False
) -> Container:
    """The container of one image; its empty volume, mounted where the launcher has it, is how the handler knows it.

    In a Pod that is `guaranteed` what it has, each container asks for as much as it may have.
    """
    host = [(HOST_USR, "/usr"), *((name, target) for name, _, target in _libraries(architecture))]
    return Container(
        name=tree.name,
        image=tree.image,
        image_pull_policy=pull_policy,
        command=list(KEEP_ALIVE),
        # An image's settings for libraries are meant for its own programs.
        env=[EnvVar(name=name) for name in _LOADER_SETTINGS],
        restart_policy="Always",
        resources=support_resources(support, CONTAINER_DISK, _REQUESTS, _LIMITS, guaranteed=guaranteed),
        volume_mounts=[
            *(VolumeMount(name=name, mount_path=target, read_only=True) for name, target in host),
            # The program loader reads its preloads and its cache from there: those of the image are code of the image.
            VolumeMount(name=_NO_SETTINGS, mount_path="/etc"),
            VolumeMount(name=tree.name, mount_path=tree.path, read_only=True),
        ],
        security_context=make_container_context(read_only_root=True),
    )


def _libraries(architecture: str) -> tuple[tuple[str, str, str], ...]:
    return _HOST_LIBRARIES_AMD64 if architecture == "amd64" else _HOST_LIBRARIES
