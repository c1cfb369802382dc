"""The containers of hook sidecars beside the launcher, and the volumes by which they meet: those that the VMI asks for
by its annotation, then one for each network binding plugin that has an image.

Called by the Pod's manifest and its volumes. Pure. Each sidecar has a directory of its own for its socket, which the
launcher has too, and nothing else of the launcher. A sidecar without an image is kvedge's own shim in the launcher's
image: it runs the script of a ConfigMap with the programs of the node.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.confinement import make_container_context
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.resources.configuration.configuration_bindings import plugins_of
from kvedge.resources.configuration.support_containers import SIDECAR, support_resources
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.resources.types.core import (
    ConfigMapVolume,
    Container,
    EmptyDirVolume,
    EnvVar,
    KeyToPath,
    PodVolume,
    VolumeMount,
)
from kvedge.resources.types.sriov_networks import NETWORK_INFO_DIRECTORY, NETWORK_INFO_VOLUME
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.hook_names import HOOK_SOCKETS_DIRECTORY, sidecar_name
from kvedge.resources.values.hook_sidecars import HookScript, HookSidecar, read_hook_sidecars
from kvedge.resources.values.quantities import Quantity
from kvedge.resources.vmi_facts import default_pull_policy

# Where kvedge's shim looks for scripts: in its container /usr is the node's, and read-only.
_SCRIPTS_DIRECTORY: Final = "/var/run/kubevirt-hook-scripts"
_EXECUTABLE: Final = 0o755
# A container without limits would take the Pod's away on one box, and make a guaranteed Pod burstable in a cluster. The
# shim has 45 MB, and its script comes on top.
_REQUESTS: Final[dict[str, Quantity]] = {"cpu": "5m", "memory": "64M"}
_LIMITS: Final[dict[str, Quantity]] = {"cpu": "500m", "memory": "256M"}
# KubeVirt's.
_NAME_VARIABLE: Final = "CONTAINER_NAME"
_PLUGIN_VARIABLE: Final = "NETWORK_BINDING_PLUGIN_NAME"


def sidecars_of(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[HookSidecar]:
    """All sidecars of a VMI, in the order of their numbers."""
    made = list(read_hook_sidecars(vmi.metadata.annotations))
    for name, plugin in plugins_of(vmi, config.bindings).items():
        if plugin.sidecar_image:
            made.append(HookSidecar(plugin.sidecar_image, plugin=name, tells_devices=plugin.tells_devices))
    return made


def socket_mounts(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[tuple[PodVolume, VolumeMount]]:
    """The directories of the sidecars' sockets, and where the launcher has them."""
    names = [sidecar_name(number) for number in range(len(sidecars_of(vmi, config)))]
    return [(_empty(_sockets(name)), _mount(_sockets(name), f"{HOOK_SOCKETS_DIRECTORY}/{name}")) for name in names]


def hook_volumes(vmi: VirtualMachineInstance, config: ClusterConfig) -> list[PodVolume]:
    """The volumes that the sidecars have and the launcher has not."""
    made: list[PodVolume] = []
    for number, sidecar in enumerate(sidecars_of(vmi, config)):
        name = sidecar_name(number)
        if sidecar.script is not None:
            made.append(_script_volume(_script(name), sidecar.script))
        if not sidecar.image:
            made.append(_empty(_scratch(name)))
    return made


def hook_containers(vmi: VirtualMachineInstance, config: ClusterConfig, host: list[VolumeMount]) -> list[Container]:
    """The containers; `host` are the mounts of the node's programs and of kvedge's own."""
    guaranteed = has_dedicated_cpus(vmi.spec.domain)
    return [
        _container(sidecar_name(number), sidecar, config, host, guaranteed=guaranteed)
        for number, sidecar in enumerate(sidecars_of(vmi, config))
    ]


def _container(
    name: str, sidecar: HookSidecar, config: ClusterConfig, host: list[VolumeMount], *, guaranteed: bool
) -> Container:
    mounts = [_mount(_sockets(name), HOOK_SOCKETS_DIRECTORY)]
    made = Container(
        name=name,
        env=[EnvVar(name=_NAME_VARIABLE, value=name)],
        resources=support_resources(config.support, SIDECAR, _REQUESTS, _LIMITS, guaranteed=guaranteed),
        security_context=make_container_context(),
    )
    if not sidecar.image:
        made.image, made.image_pull_policy = LAUNCHER_IMAGE, "Never"
        made.command = [*config.program, "launcher", "--hook-shim", *sidecar.args]
        made.env.append(EnvVar(name="PATH", value=f"{_SCRIPTS_DIRECTORY}:/usr/local/bin:/usr/bin:/usr/sbin"))
        scripts = VolumeMount(name=_script(name), mount_path=_SCRIPTS_DIRECTORY, read_only=True)
        made.volume_mounts = [*host, *mounts, scripts, _mount(_scratch(name), "/tmp")]
        return made
    if sidecar.plugin:
        made.env.append(EnvVar(name=_PLUGIN_VARIABLE, value=sidecar.plugin))
    if sidecar.tells_devices:
        mounts.append(VolumeMount(name=NETWORK_INFO_VOLUME, mount_path=NETWORK_INFO_DIRECTORY, read_only=True))
    made.image = sidecar.image
    made.image_pull_policy = sidecar.pull_policy or default_pull_policy(sidecar.image)
    made.command, made.args = list(sidecar.command), list(sidecar.args)
    if sidecar.script is not None:
        path = sidecar.script.path
        mounts.append(
            VolumeMount(name=_script(name), mount_path=path, sub_path=path.rpartition("/")[2], read_only=True)
        )
    made.volume_mounts = mounts
    return made


def _script_volume(name: str, script: HookScript) -> PodVolume:
    item = KeyToPath(key=script.key, path=script.path.rpartition("/")[2])
    source = ConfigMapVolume(name=script.config_map, items=[item], default_mode=_EXECUTABLE)
    return PodVolume(name=name, config_map=source)


def _empty(name: str) -> PodVolume:
    return PodVolume(name=name, empty_dir=EmptyDirVolume())


def _mount(name: str, path: str) -> VolumeMount:
    return VolumeMount(name=name, mount_path=path)


def _sockets(container: str) -> str:
    return f"{container}-sockets"


def _script(container: str) -> str:
    return f"{container}-script"


def _scratch(container: str) -> str:
    return f"{container}-tmp"
