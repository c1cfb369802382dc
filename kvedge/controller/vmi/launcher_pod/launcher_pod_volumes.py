"""The volumes of a launcher Pod, and where they appear in it.

Called by the Pod's manifest. Pure. Directories and names are KubeVirt's; the host's /usr and kvedge's own program come
in read-only, as the launcher's image has nothing in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.launcher_pod.disk_container_manifest import HOST_USR, disk_container, host_library_volumes
from kvedge.controller.vmi.launcher_pod.hook_containers import hook_containers, hook_volumes, socket_mounts
from kvedge.controller.vmi.launcher_pod.launcher_pod_claims import make_mounted_claims
from kvedge.controller.vmi.launcher_pod.launcher_pod_files import make_mounted_files
from kvedge.controller.vmi.launcher_pod.launcher_pod_host_disks import make_mounted_host_disks
from kvedge.controller.vmi.launcher_pod.share_container_manifest import shares_volumes
from kvedge.resources.access_credentials import credential_secrets, credential_volume
from kvedge.resources.configuration.configuration_bindings import plugins_of
from kvedge.resources.disks.hotplug_places import HOTPLUG_DIRECTORY, HOTPLUG_VOLUME
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus
from kvedge.resources.names import (
    CAPABILITIES_DIRECTORY,
    EPHEMERAL_DISKS_DIRECTORY,
    LIBVIRT_RUNTIME_DIRECTORY,
    PRIVATE_DIRECTORY,
    SOCKETS_DIRECTORY,
)
from kvedge.resources.types.core import (
    Container,
    DownwardApiVolume,
    EmptyDirVolume,
    HostPathVolume,
    ImageVolume,
    PodVolume,
    SecretVolume,
    VolumeDevice,
    VolumeMount,
)
from kvedge.resources.types.image_trees import ImageTree, image_trees
from kvedge.resources.types.pod_networks import sriov_interfaces
from kvedge.resources.types.sriov_networks import (
    NETWORK_INFO,
    NETWORK_INFO_DIRECTORY,
    NETWORK_INFO_FILE,
    NETWORK_INFO_VOLUME,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.resources.vmi_facts import default_pull_policy

_PUBLIC_DIRECTORY: Final = "/var/run/kubevirt"
# Parents before children, as mounts are made in this order.
_EMPTY_DIRECTORIES: Final = (
    ("private", PRIVATE_DIRECTORY, None),
    ("public", _PUBLIC_DIRECTORY, None),
    ("sockets", SOCKETS_DIRECTORY, None),
    ("container-disks", f"{_PUBLIC_DIRECTORY}/container-disks", None),
    # The handler mounts hotplugged volumes on the host, and the running Pod must see them.
    (HOTPLUG_VOLUME, HOTPLUG_DIRECTORY, "HostToContainer"),
    ("libvirt-runtime", LIBVIRT_RUNTIME_DIRECTORY, None),
    ("ephemeral-disks", EPHEMERAL_DISKS_DIRECTORY, None),
)


class MountedVolume(Struct, frozen=True):
    """A volume and the one place where the compute container has it: a directory, or a device node."""

    volume: PodVolume
    mount: VolumeMount | VolumeDevice


def launcher_volumes(
    vmi: VirtualMachineInstance, config: ClusterConfig, claims: Mapping[str, PersistentVolumeClaim]
) -> list[MountedVolume]:
    """All volumes of this VMI's launcher, in the order in which they must be mounted; `claims` by their names."""
    own = _own_volumes(vmi, config)
    taken = {made.volume.name for made in own} | {volume.name for volume in hook_volumes(vmi, config)}
    users = [
        *make_mounted_files(vmi, taken),
        *make_mounted_claims(vmi, claims, taken),
        *make_mounted_host_disks(vmi, taken),
    ]
    return [*own, *(MountedVolume(volume, place) for volume, place in users)]


def _own_volumes(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[MountedVolume]:
    return [
        *_host_directories(config),
        *(_empty_directory(*entry) for entry in _EMPTY_DIRECTORIES),
        *(_image(tree, config) for tree in image_trees(vmi)),
        *(made for volume in vmi.spec.volumes for made in _cloud_init_secrets(volume)),
        *(_secret(credential_volume(name), name) for name in credential_secrets(vmi)),
        *([_network_info()] if _is_told_devices(vmi, config) else []),
        *(MountedVolume(volume, place) for volume, place in socket_mounts(vmi, config)),
        *(MountedVolume(volume, mount) for volume, mount in shares_volumes(vmi)),
    ]


def disk_containers(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[Container]:
    """The containers that hold this VMI's images, where nodes cannot mount them."""
    if config.image_volumes:
        return []
    architecture, guaranteed = _architecture(vmi, config), has_dedicated_cpus(vmi.spec.domain)
    return [
        disk_container(tree, _pull_policy(tree), architecture, config.support, guaranteed=guaranteed)
        for tree in image_trees(vmi)
    ]


def disk_container_volumes(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[PodVolume]:
    """The volumes of those containers that the launcher does not have."""
    if config.image_volumes or not image_trees(vmi):
        return []
    return host_library_volumes(_architecture(vmi, config))


def other_containers(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[Container]:
    """The containers beside the launcher's: hook sidecars, and those of network binding plugins."""
    host = [made.mount for made in _program_directories(config) if isinstance(made.mount, VolumeMount)]
    return hook_containers(vmi, config, host)


def other_volumes(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[PodVolume]:
    """The Pod's volumes that the launcher itself does not have."""
    return [*disk_container_volumes(vmi, config), *hook_volumes(vmi, config)]


def pull_secrets(vmi: VirtualMachineInstance) -> list[str]:
    """The names of the secrets with which images are pulled, each once."""
    return sorted({tree.pull_secret for tree in image_trees(vmi) if tree.pull_secret})


def _program_directories(config: ClusterConfig) -> list[MountedVolume]:
    made = [_host_directory(HOST_USR, "/usr", "/usr", "Directory")]
    for number, path in enumerate(config.program_directories):
        made.append(_host_directory(f"program-{number}", path, path, "Directory"))
    return made


def _host_directories(config: ClusterConfig) -> list[MountedVolume]:
    made = _program_directories(config)
    # A node that has not probed its QEMU yet has none: the launcher then probes for itself.
    seed = config.capabilities_directory
    return [*made, _host_directory("qemu-capabilities", seed, CAPABILITIES_DIRECTORY, "DirectoryOrCreate")]


def _host_directory(name: str, path: str, mount_path: str, kind: str) -> MountedVolume:
    volume = PodVolume(name=name, host_path=HostPathVolume(path=path, type=kind))
    return MountedVolume(volume, VolumeMount(name=name, mount_path=mount_path, read_only=True))


def _empty_directory(name: str, path: str, propagation: str | None) -> MountedVolume:
    volume = PodVolume(name=name, empty_dir=EmptyDirVolume())
    return MountedVolume(volume, VolumeMount(name=name, mount_path=path, mount_propagation=propagation))


def _image(tree: ImageTree, config: ClusterConfig) -> MountedVolume:
    """The image itself, or an empty place that the handler fills from the image's container."""
    if config.image_volumes:
        image = ImageVolume(reference=tree.image, pull_policy=_pull_policy(tree))
        volume = PodVolume(name=tree.name, image=image)
    else:
        volume = PodVolume(name=tree.name, empty_dir=EmptyDirVolume())
    return MountedVolume(volume, VolumeMount(name=tree.name, mount_path=tree.path, read_only=True))


def _is_told_devices(vmi: VirtualMachineInstance, config: ClusterConfig) -> bool:
    return bool(sriov_interfaces(vmi)) or any(
        plugin.tells_devices for plugin in plugins_of(vmi, config.bindings).values()
    )


def _network_info() -> MountedVolume:
    """An annotation of the Pod as a file: the controller writes it once Multus has told of the Pod's devices."""
    field = {"path": NETWORK_INFO_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{NETWORK_INFO}']"}}
    volume = PodVolume(name=NETWORK_INFO_VOLUME, downward_api=DownwardApiVolume(items=[field]))
    mount = VolumeMount(name=NETWORK_INFO_VOLUME, mount_path=NETWORK_INFO_DIRECTORY, read_only=True)
    return MountedVolume(volume, mount)


def _architecture(vmi: VirtualMachineInstance, config: ClusterConfig) -> str:
    return vmi.spec.architecture or config.default_architecture


def _pull_policy(tree: ImageTree) -> str:
    return tree.pull_policy or default_pull_policy(tree.image)


def _cloud_init_secrets(volume: Volume) -> list[MountedVolume]:
    cloud_init = volume.cloud_init_no_cloud or volume.cloud_init_config_drive
    if cloud_init is None:
        return []
    made = []
    for suffix, reference in (("udata", cloud_init.secret_ref), ("ndata", cloud_init.network_data_secret_ref)):
        if reference is not None:
            made.append(_secret(f"{volume.name}-{suffix}", reference.name))
    return made


def _secret(name: str, secret: str) -> MountedVolume:
    volume = PodVolume(name=name, secret=SecretVolume(secret_name=secret))
    return MountedVolume(
        volume, VolumeMount(name=name, mount_path=f"{PRIVATE_DIRECTORY}/secret/{name}", read_only=True)
    )
