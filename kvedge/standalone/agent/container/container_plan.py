"""From a Pod's container to what the starter is told. Pure.

Called by the Pod loop once image, volumes, network and devices of the container are there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from msgspec import Struct

from kvedge.resources.names import GUESTFS_IMAGE
from kvedge.resources.types.core import Container, Pod, Sysctl, VolumeMount
from kvedge.resources.values.quantities import Quantity, parse_bytes, parse_quantity
from kvedge.standalone.agent.container.cgroups import CgroupLimits
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_privileges import CAPABILITIES
from kvedge.standalone.agent.container.container_spec import ContainerSpec, DeviceSpec, MountSpec
from kvedge.standalone.agent.container.container_user import ContainerUser
from kvedge.storage.images.image_manifest import ImageConfig

# containerd's defaults without MKNOD: nothing in a Pod has a reason to make device nodes.
_DEFAULT_CAPABILITIES: Final = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE"),
    *("NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A container may write so much to its own root, which is kept in memory; more belongs into a volume.
_WRITABLE_BYTES: Final = 64 << 20
_REFERENCE: Final = re.compile(r"\$(\$|\(([^)]*)\))")
_GUARANTEED_SCORE: Final = -997
_BEST_EFFORT_SCORE: Final = 1000


class PodPlace(Struct, frozen=True):
    """What a Pod was given on this node: its volumes' paths, namespace, cgroups, and the node's memory in bytes."""

    files: PodFiles
    volumes: Mapping[str, str]
    netns: str
    cgroups: Sequence[str]
    node_memory: int
    # The Pod's annotation of the networks that it joined; empty for a Pod on its own network alone.
    network_status: str = ""


class ContainerPlanError(ValueError):
    """The container's spec does not hold together: CreateContainerConfigError, with this text."""


def plan_container(
    pod: Pod,
    container: Container,
    place: PodPlace,
    image: tuple[ImageConfig, str],
    user: ContainerUser,
    env: Mapping[str, str],
    devices: Sequence[DeviceSpec],
) -> ContainerSpec:
    """Everything the starter needs; `image` is the config and the tree, `env` the container's own, already resolved.

    Raises:
        ContainerPlanError: when no command, no such volume, or an unknown capability is named.
    """
    config, tree = image
    files = place.files.container(container.name)
    context = container.security_context
    if container.image == GUESTFS_IMAGE and user.uid == 0:
        # It has the host's programs, in which root could read what is root's alone.
        raise ContainerPlanError("the node's libguestfs is for users other than root: leave --root out")
    environment = _environment(config, env, hostname(pod))
    return {
        "id": f"{place.files.uid}/{container.name}",
        "record": str(files.record),
        "lock": str(files.lock),
        "log": str(files.log),
        "answer": str(files.answer),
        "stage": str(files.stage),
        "cgroups": list(place.cgroups),
        "netns": place.netns,
        "hostname": hostname(pod),
        "root": tree,
        "writable_bytes": 0 if context and context.read_only_root_filesystem else _WRITABLE_BYTES,
        "mounts": _mounts(pod, container, place),
        "devices": [_check_device(device) for device in (*devices, *_volume_devices(container, place.volumes))],
        "uid": user.uid,
        "gid": user.gid,
        "groups": list(user.groups),
        "capabilities": capabilities_of(container),
        "no_new_privileges": bool(context and context.allow_privilege_escalation is False),
        "seccomp": needs_seccomp(pod, container),
        "oom_score_adj": oom_score(pod, container, place.node_memory),
        "sysctls": {item.name: item.value for item in _pod_sysctls(pod)},
        "argv": _argv(container, config, env),
        "env": environment,
        "working_dir": container.working_dir or config.working_dir or "/",
    }


def hostname(pod: Pod) -> str:
    """The Pod's host name, at most the 63 letters a label may have."""
    return (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")


def capabilities_of(container: Container) -> list[str]:
    """What the container's root user keeps, and what bounds everybody else.

    Raises:
        ContainerPlanError: for a name that is no capability.
    """
    context = container.security_context
    wanted = context.capabilities if context else None
    if wanted is None:
        return sorted(_DEFAULT_CAPABILITIES)
    added = {name.upper().removeprefix("CAP_") for name in wanted.add}
    dropped = {name.upper().removeprefix("CAP_") for name in wanted.drop}
    unknown = (added | dropped) - set(CAPABILITIES) - {"ALL"}
    if unknown:
        raise ContainerPlanError(f"unknown capability to add or drop: {', '.join(sorted(unknown))}")
    kept = set() if "ALL" in dropped else set(_DEFAULT_CAPABILITIES) - dropped
    kept |= set(CAPABILITIES) if "ALL" in added else added
    return sorted(kept - {"MKNOD"})


def needs_seccomp(pod: Pod, container: Container) -> bool:
    """Whether the container is kept from unusual system calls: it is unless it says that it needs them.

    As with a kubelet's `--seccomp-default`. Users' Pods may run as root here, and no user namespace lies between such a
    root and the kernel; Pod Security lets only administrators say Unconfined.
    """
    context = container.security_context
    profile = context.seccomp_profile if context else None
    if profile is None and pod.spec.security_context is not None:
        profile = pod.spec.security_context.seccomp_profile
    return profile is None or profile.type != "Unconfined"


def qos_class(pod: Pod) -> str:
    """Guaranteed, Burstable or BestEffort, as Kubernetes tells them apart."""
    named = [container.resources for container in (*pod.spec.containers, *pod.spec.init_containers)]
    requests = [_of_interest(item.requests) for item in named]
    limits = [_of_interest(item.limits) for item in named]
    if not any(requests) and not any(limits):
        return "BestEffort"
    guaranteed = all(
        len(limit) == 2 and all(request.get(key, value) == value for key, value in limit.items())
        for request, limit in zip(requests, limits, strict=True)
    )
    return "Guaranteed" if guaranteed else "Burstable"


def oom_score(pod: Pod, container: Container, node_memory: int) -> int:
    """The kubelet's: a container that asked for much of the node's memory is killed late."""
    match qos_class(pod):
        case "Guaranteed":
            return _GUARANTEED_SCORE
        case "BestEffort":
            return _BEST_EFFORT_SCORE
    requested = parse_bytes(container.resources.requests.get("memory", 0))
    return int(max(3, min(999, 1000 - 1000 * requested // max(1, node_memory))))


def pod_limits(pod: Pod) -> CgroupLimits:
    """What the Pod's cgroup is limited to: its limits only, and those only when every container has one."""
    memory = [container.resources.limits.get("memory") for container in pod.spec.containers]
    cpu = [container.resources.limits.get("cpu") for container in pod.spec.containers]
    requests = [container.resources.requests.get("cpu", 0) for container in pod.spec.containers]
    return CgroupLimits(
        memory=sum(parse_bytes(value) for value in memory if value is not None) if None not in memory else 0,
        cpu_request=_milli(requests),
        cpu_limit=_milli([value for value in cpu if value is not None]) if None not in cpu else 0,
    )


def expand(text: str, env: Mapping[str, str]) -> str:
    """Kubernetes' `$(NAME)`; `$$` is a dollar, and an unknown name stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        return env.get(match.group(2), match.group(0))

    return _REFERENCE.sub(value, text)


def _milli(values: Sequence[Quantity]) -> int:
    return int(sum((parse_quantity(value) for value in values), Fraction()) * 1000)


def _of_interest(named: Mapping[str, Quantity]) -> dict[str, Fraction]:
    return {key: parse_quantity(value) for key, value in named.items() if key in ("cpu", "memory") and value}


def _environment(config: ImageConfig, env: Mapping[str, str], host: str) -> dict[str, str]:
    from_image = dict(item.split("=", 1) for item in config.env if "=" in item)
    return {"PATH": _DEFAULT_PATH, "HOSTNAME": host, **from_image, **env}


def _argv(container: Container, config: ImageConfig, env: Mapping[str, str]) -> list[str]:
    """A command replaces the image's entrypoint and its arguments, as in Kubernetes."""
    command = container.command or list(config.entrypoint)
    arguments = container.args or ([] if container.command else list(config.command))
    argv = [expand(word, env) for word in (*command, *arguments)]
    if not argv:
        raise ContainerPlanError("no command specified, and the image has none")
    return argv


def _mounts(pod: Pod, container: Container, place: PodPlace) -> list[MountSpec]:
    # A container never writes to files of an image or an object, even if the mount says so.
    fixed = {item.name for item in pod.spec.volumes if item.image or item.secret or item.config_map}
    fixed |= {item.name for item in pod.spec.volumes if (claim := item.persistent_volume_claim) and claim.read_only}
    mounts = [_mount(mount, place.volumes, read_only=mount.name in fixed) for mount in container.volume_mounts]
    targets = {mount["target"].rstrip("/") for mount in mounts}
    for source, target in ((place.files.hosts, "/etc/hosts"), (place.files.resolv, "/etc/resolv.conf")):
        if target not in targets:
            # As the kubelet does: the Pod's user may not write them here, as the root that owns them is the host's.
            mounts.append(_plain_mount(str(source), target))
    if container.image == GUESTFS_IMAGE and "/usr" not in targets:
        mounts.append(_plain_mount("/usr", "/usr"))
    return mounts


def _volume_devices(container: Container, volumes: Mapping[str, str]) -> list[DeviceSpec]:
    """The claims of mode Block, each as a device node that belongs to the container's user."""
    for device in container.volume_devices:
        if device.name not in volumes:
            raise ContainerPlanError(f'volume device names no volume of the Pod: "{device.name}"')
    return [{"host": volumes[device.name], "path": device.device_path} for device in container.volume_devices]


def _check_device(device: DeviceSpec) -> DeviceSpec:
    if not device["path"].startswith("/dev/") or ".." in device["path"].split("/"):
        raise ContainerPlanError(f"device {device['path']} is not below /dev")
    return device


def _plain_mount(source: str, target: str) -> MountSpec:
    return {"source": source, "sub_path": "", "target": target, "read_only": True, "follow_host": False}


def _mount(mount: VolumeMount, volumes: Mapping[str, str], *, read_only: bool) -> MountSpec:
    if mount.name not in volumes:
        raise ContainerPlanError(f'volume mount names no volume of the Pod: "{mount.name}"')
    if not mount.mount_path.startswith("/") or ".." in mount.mount_path.split("/"):
        raise ContainerPlanError(f"mountPath {mount.mount_path} must be absolute and without ..")
    if mount.sub_path.startswith("/") or ".." in mount.sub_path.split("/"):
        raise ContainerPlanError(f"subPath {mount.sub_path} must be relative and without ..")
    return {
        "source": volumes[mount.name],
        "sub_path": mount.sub_path,
        "target": mount.mount_path,
        "read_only": mount.read_only or read_only,
        "follow_host": mount.mount_propagation == "HostToContainer",
    }


def _pod_sysctls(pod: Pod) -> Sequence[Sysctl]:
    return pod.spec.security_context.sysctls if pod.spec.security_context else ()
