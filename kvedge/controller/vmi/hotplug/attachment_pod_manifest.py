"""The attachment Pod of one hotplugged volume: it holds the claim on the launcher's node, where the handler takes it.

Called by the plans of hotplugged volumes and of migrations. Pure. One Pod for each volume (KubeVirt has one for all): a
volume that comes or goes touches no other, and a Pod has one name for ever, so that there is never a second one for the
same launcher.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from kvedge.controller.confinement import make_container_context, make_pod_context
from kvedge.controller.node_affinity import on_node
from kvedge.controller.vmi.launcher_pod.disk_container_manifest import HOST_USR, KEEP_ALIVE
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.support_containers import HOTPLUG_DISK, NOTHING_SAID, Support, support_resources
from kvedge.resources.disks.hotplug_places import CLAIM_PLACE, DEVICE_PLACE, MARK_PLACE, MARK_VOLUME
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.names import APP, LAUNCHER_IMAGE, LAUNCHER_UID
from kvedge.resources.types.core import (
    Container,
    EmptyDirVolume,
    HostPathVolume,
    PersistentVolumeClaimVolume,
    Pod,
    PodSpec,
    PodVolume,
    SecurityContext,
    VolumeDevice,
    VolumeMount,
)
from kvedge.resources.types.migrations import MIGRATION_JOB_UID
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import Quantity

_CLAIM: Final = "claim"
# KubeVirt's.
_CONTAINER: Final = "hotplug-disk"
# KubeVirt's, by which users find the Pods of a VMI.
_OWNER_NAME: Final = "kubevirt.io/owner-vmi-name"
_OWNER_UID: Final = "kubevirt.io/owner-vmi-uid"
# KubeVirt's, but for the memory: a shell and a sleep, whose start the limit must not slow down.
_REQUESTS: Final[dict[str, Quantity]] = {"cpu": "10m", "memory": "2M"}
_LIMITS: Final[dict[str, Quantity]] = {"cpu": "100m", "memory": "80M"}
# A node that takes no new Pods, or is short of something, still runs the guest that waits for its disk.
_TOLERATED: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
)


def attachment_pod_name(vmi: VirtualMachineInstance, volume: str, claim: str, launcher: Pod | None = None) -> str:
    """The one name that the Pod of this volume on this claim can have beside a launcher; None: the run's first one."""
    job = None if launcher is None else launcher.metadata.labels.get(MIGRATION_JOB_UID)
    text = "\n".join((vmi.metadata.uid, volume, claim, *([job] if job else [])))
    digest = hashlib.sha256(text.encode()).digest()
    return f"hp-volume-{base64.b32encode(digest).decode().lower()[:16]}"


def attachment_pod(
    vmi: VirtualMachineInstance,
    volume: str,
    claim: PersistentVolumeClaim,
    launcher: Pod,
    support: Support = NOTHING_SAID,
) -> Pod:
    """The Pod, which goes with its launcher."""
    meta = vmi.metadata
    return Pod(
        metadata=ObjectMeta(
            name=attachment_pod_name(vmi, volume, claim.metadata.name, launcher),
            namespace=meta.namespace,
            labels={APP: ATTACHMENT_APP},
            annotations={_OWNER_NAME: meta.name, _OWNER_UID: meta.uid},
            owner_references=[_owner(launcher)],
        ),
        spec=PodSpec(
            containers=[_container(claim, support)],
            volumes=[
                PodVolume(name=HOST_USR, host_path=HostPathVolume(path="/usr", type="Directory")),
                PodVolume(name=MARK_VOLUME, empty_dir=EmptyDirVolume()),
                PodVolume(
                    name=_CLAIM, persistent_volume_claim=PersistentVolumeClaimVolume(claim_name=claim.metadata.name)
                ),
            ],
            affinity=on_node(launcher.spec.node_name),
            tolerations=_tolerations(launcher),
            # A Pod that has ended is made anew, on one box and in a cluster: one box restarts no container.
            restart_policy="Never",
            termination_grace_period_seconds=0,
            security_context=make_pod_context(),
            automount_service_account_token=False,
            enable_service_links=False,
            priority_class_name=launcher.spec.priority_class_name,
        ),
    )


def is_ready(pod: Pod) -> bool:
    """Whether the handler of its node may take the volume from it."""
    return pod.status.phase == "Running" and any(status.ready for status in pod.status.container_statuses)


def is_ours(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a Pod is what `attachment_pod` renders for this claim, in all that the handler relies on.

    What an API server or a scheduler adds is left out: defaults, tolerations, a priority.
    """
    spec, wanted = pod.spec, _container(claim, NOTHING_SAID)
    if len(spec.containers) != 1 or spec.init_containers or spec.host_network:
        return False
    found = spec.containers[0]
    claims = {volume.name: volume.persistent_volume_claim for volume in spec.volumes if volume.persistent_volume_claim}
    return (
        (found.name, found.image, found.command, found.args) == (wanted.name, wanted.image, wanted.command, [])
        and _is_powerless(found.security_context)
        and {name: source.claim_name for name, source in claims.items()} == {_CLAIM: claim.metadata.name}
        and _places(found) == _places(wanted)
    )


def _is_powerless(context: SecurityContext | None) -> bool:
    if context is None or context.privileged or context.allow_privilege_escalation is not False:
        return False
    rights = context.capabilities
    return context.run_as_user == LAUNCHER_UID and rights is not None and rights.drop == ["ALL"] and not rights.add


def _places(container: Container) -> set[tuple[str, str, str]]:
    """Where its volumes are, and what part of them."""
    mounts = {(mount.name, mount.mount_path, mount.sub_path) for mount in container.volume_mounts}
    return mounts | {(device.name, device.device_path, "") for device in container.volume_devices}


def _container(claim: PersistentVolumeClaim, support: Support) -> Container:
    mounts = [
        VolumeMount(name=HOST_USR, mount_path="/usr", read_only=True),
        VolumeMount(name=MARK_VOLUME, mount_path=MARK_PLACE),
    ]
    devices = [VolumeDevice(name=_CLAIM, device_path=DEVICE_PLACE)] if claim.is_block else []
    if not claim.is_block:
        mounts.append(VolumeMount(name=_CLAIM, mount_path=CLAIM_PLACE))
    return Container(
        name=_CONTAINER,
        image=LAUNCHER_IMAGE,
        image_pull_policy="Never",
        command=list(KEEP_ALIVE),
        resources=support_resources(support, HOTPLUG_DISK, _REQUESTS, _LIMITS),
        volume_mounts=mounts,
        volume_devices=devices,
        security_context=make_container_context(),
    )


def _owner(launcher: Pod) -> OwnerReference:
    return OwnerReference(
        api_version="v1",
        kind="Pod",
        name=launcher.metadata.name,
        uid=launcher.metadata.uid,
        controller=True,
    )


def _tolerations(launcher: Pod) -> list[JsonObject]:
    ours: list[JsonObject] = [{"key": key, "operator": "Exists"} for key in _TOLERATED]
    return [*ours, *(toleration for toleration in launcher.spec.tolerations if toleration not in ours)]
