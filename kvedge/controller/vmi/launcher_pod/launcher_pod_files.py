"""The volumes of a launcher Pod whose files the guest gets, on a disk or as a directory: ConfigMap, Secret and others.

Called by the Pod's volumes. Pure. A service account's files are projected as Kubernetes does it for every Pod: the
token ends with the Pod, and after an hour, which API servers stretch to a year for this very request. A disk is written
once, so that a guest that runs longer needs a restart; a directory changes with its object.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.vmi.launcher_pod.pod_volume_names import free_name
from kvedge.resources.disks.acpi_tables import acpi_tables
from kvedge.resources.disks.config_disks import config_disk
from kvedge.resources.types.core import (
    ConfigMapVolume,
    DownwardApiVolume,
    PodVolume,
    ProjectedVolume,
    SecretVolume,
    VolumeMount,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import SysprepSource, Volume

# Kubernetes' own number for the tokens that it mounts into Pods: an API server knows it, and lets such a token live on.
TOKEN_SECONDS: Final = 3607
_PROJECTED_MODE: Final = 0o644


def make_mounted_files(vmi: VirtualMachineInstance, taken: set[str]) -> list[tuple[PodVolume, VolumeMount]]:
    """Each of these volumes that a disk, a filesystem or an ACPI table uses, and where its files are, in the VMI's
    order; names go to `taken`."""
    devices = vmi.spec.domain.devices
    used = {disk.name for disk in devices.disks} | {filesystem.name for filesystem in devices.filesystems}
    used |= {table.volume for table in acpi_tables(vmi.spec.domain).values()}
    made = []
    for volume in vmi.spec.volumes:
        disk = config_disk(volume)
        if disk is not None and volume.name in used:
            name = free_name(volume.name, taken)
            made.append((_pod_volume(name, volume), VolumeMount(name=name, mount_path=disk.directory, read_only=True)))
    return made


def _pod_volume(name: str, volume: Volume) -> PodVolume:
    if volume.config_map is not None:
        source = volume.config_map
        return PodVolume(name=name, config_map=ConfigMapVolume(name=source.name, optional=source.optional))
    if volume.secret is not None:
        secret = SecretVolume(secret_name=volume.secret.secret_name, optional=volume.secret.optional)
        return PodVolume(name=name, secret=secret)
    if volume.downward_api is not None:
        return PodVolume(name=name, downward_api=DownwardApiVolume(items=volume.downward_api.fields))
    if volume.sysprep is not None:
        return _sysprep(name, volume.sysprep)
    return PodVolume(name=name, projected=_service_account())


def _sysprep(name: str, source: SysprepSource) -> PodVolume:
    if source.secret is not None:
        # KubeVirt's choice where both are given.
        return PodVolume(name=name, secret=SecretVolume(secret_name=source.secret.name))
    config_map = source.config_map.name if source.config_map is not None else ""
    return PodVolume(name=name, config_map=ConfigMapVolume(name=config_map))


def _service_account() -> ProjectedVolume:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return ProjectedVolume(
        sources=[
            {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        default_mode=_PROJECTED_MODE,
    )
