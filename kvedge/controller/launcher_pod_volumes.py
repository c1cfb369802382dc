"""The volumes of a launcher Pod, and where they appear in it.

Called by the Pod's manifest. Pure. Directories and names are KubeVirt's; the host's /usr and kvedge's own program come
in read-only, as the launcher's image has nothing in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvedge.controller.cluster_config import ClusterConfig
from kvedge.resources.core import EmptyDirVolume, HostPathVolume, ImageVolume, PodVolume, SecretVolume, VolumeMount
from kvedge.resources.names import (
    CAPABILITIES_DIRECTORY,
    EPHEMERAL_DISKS_DIRECTORY,
    IMAGE_VOLUMES_DIRECTORY,
    LIBVIRT_RUNTIME_DIRECTORY,
    PRIVATE_DIRECTORY,
    SOCKETS_DIRECTORY,
)
from kvedge.resources.vmi import VirtualMachineInstance
from kvedge.resources.volumes import CloudInit, ContainerDisk, Volume

_PUBLIC_DIRECTORY: Final = "/var/run/kubevirt"
# Parents before children, as mounts are made in this order.
_EMPTY_DIRECTORIES: Final = (
    ("private", PRIVATE_DIRECTORY, None),
    ("public", _PUBLIC_DIRECTORY, None),
    ("sockets", SOCKETS_DIRECTORY, None),
    ("container-disks", f"{_PUBLIC_DIRECTORY}/container-disks", None),
    # The handler mounts hotplugged volumes on the host, and the running Pod must see them.
    ("hotplug-disks", f"{_PUBLIC_DIRECTORY}/hotplug-disks", "HostToContainer"),
    ("libvirt-runtime", LIBVIRT_RUNTIME_DIRECTORY, None),
    ("ephemeral-disks", EPHEMERAL_DISKS_DIRECTORY, None),
)


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """A volume and the one place where the compute container has it."""

    volume: PodVolume
    mount: VolumeMount


def launcher_volumes(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[MountedVolume]:
    """All volumes of this VMI's launcher, in the order in which they must be mounted."""
    return [
        *_host_directories(config),
        *(_empty_directory(*entry) for entry in _EMPTY_DIRECTORIES),
        *_kernel_boot(vmi),
        *(made for index, volume in enumerate(vmi.spec.volumes) for made in _of_volume(index, volume)),
    ]


def pull_secrets(vmi: VirtualMachineInstance) -> list[str]:
    """The names of the secrets with which images are pulled, each once."""
    names = [volume.container_disk.image_pull_secret for volume in vmi.spec.volumes if volume.container_disk]
    kernel = _kernel_container(vmi)
    if kernel is not None:
        names.append(kernel.image_pull_secret)
    return sorted({name for name in names if name})


def _host_directories(config: ClusterConfig) -> list[MountedVolume]:
    made = [_host_directory("host-usr", "/usr", "/usr", "Directory")]
    for number, path in enumerate(config.program_directories):
        made.append(_host_directory(f"program-{number}", path, path, "Directory"))
    # A node that has not probed its QEMU yet has none: the launcher then probes for itself.
    seed = config.capabilities_directory
    return [*made, _host_directory("qemu-capabilities", seed, CAPABILITIES_DIRECTORY, "DirectoryOrCreate")]


def _host_directory(name: str, path: str, mount_path: str, kind: str) -> MountedVolume:
    volume = PodVolume(name=name, host_path=HostPathVolume(path=path, type=kind))
    return MountedVolume(volume, VolumeMount(name=name, mount_path=mount_path, read_only=True))


def _empty_directory(name: str, path: str, propagation: str | None) -> MountedVolume:
    volume = PodVolume(name=name, empty_dir=EmptyDirVolume())
    return MountedVolume(volume, VolumeMount(name=name, mount_path=path, mount_propagation=propagation))


def _kernel_boot(vmi: VirtualMachineInstance) -> list[MountedVolume]:
    kernel = _kernel_container(vmi)
    if kernel is None:
        return []
    return [_image("kernel-boot", kernel.image, kernel.image_pull_policy, "kernel-boot")]


def _kernel_container(vmi: VirtualMachineInstance) -> ContainerDisk | None:
    firmware = vmi.spec.domain.firmware
    if firmware is None or firmware.kernel_boot is None or firmware.kernel_boot.container is None:
        return None
    kernel = firmware.kernel_boot.container
    return ContainerDisk(
        image=kernel.image, image_pull_secret=kernel.image_pull_secret, image_pull_policy=kernel.image_pull_policy
    )


def _of_volume(index: int, volume: Volume) -> list[MountedVolume]:
    if volume.container_disk is not None:
        disk = volume.container_disk
        return [_image(f"volume{volume.name}", disk.image, disk.image_pull_policy, f"disk_{index}")]
    cloud_init = volume.cloud_init_no_cloud or volume.cloud_init_config_drive
    return [] if cloud_init is None else _cloud_init_secrets(volume.name, cloud_init)


def _image(name: str, reference: str, policy: str, directory: str) -> MountedVolume:
    image = ImageVolume(reference=reference, pull_policy=policy or _default_policy(reference))
    mount = VolumeMount(name=name, mount_path=f"{IMAGE_VOLUMES_DIRECTORY}/{directory}", read_only=True)
    return MountedVolume(PodVolume(name=name, image=image), mount)


def _default_policy(reference: str) -> str:
    """Kubernetes' rule: a tag that moves is asked for anew, anything else is kept."""
    if "@" in reference:
        return "IfNotPresent"
    tag = reference.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _cloud_init_secrets(name: str, cloud_init: CloudInit) -> list[MountedVolume]:
    made = []
    for suffix, reference in (("udata", cloud_init.secret_ref), ("ndata", cloud_init.network_data_secret_ref)):
        if reference is not None:
            volume = PodVolume(name=f"{name}-{suffix}", secret=SecretVolume(secret_name=reference.name))
            path = f"{PRIVATE_DIRECTORY}/secret/{name}-{suffix}"
            made.append(MountedVolume(volume, VolumeMount(name=volume.name, mount_path=path, read_only=True)))
    return made
