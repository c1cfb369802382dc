"""What serves an export: an unprivileged Pod from the launcher's image and the host's /usr, its Service and Secrets.

Called by the plan and by `export_writes`. Pure but for a random name. Claims are mounted read-only. The Pod lives no
longer than its export, and is made anew when it ends before.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import secrets
import string
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.controller.confinement import make_container_context, make_pod_context
from kvedge.controller.exports.export_view import SourceSeen, SourceVolume
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.resources.codec import JsonObject, encode_json
from kvedge.resources.configuration.support_containers import VM_EXPORT, support_resources
from kvedge.resources.disks.exports import (
    EXPORT_PORT,
    EXPORTER_APP,
    EXPORTER_CONTAINER,
    SERVICE_LABEL,
    SERVICE_PORT,
    TOKEN_KEY,
    TOKEN_LENGTH,
    default_token_secret,
    exporter_name,
    server_name,
    service_host,
)
from kvedge.resources.masquerade import INJECT_SIDECAR
from kvedge.resources.meta import ObjectMeta, OwnerReference, owner_reference
from kvedge.resources.names import APP, HOST_NAME, LAUNCHER_APP, LAUNCHER_IMAGE, VMI_ID
from kvedge.resources.types.core import (
    Container,
    ContainerPort,
    EmptyDirVolume,
    EnvVar,
    HostPathVolume,
    PersistentVolumeClaimVolume,
    Pod,
    PodSpec,
    PodVolume,
    Secret,
    SecretVolume,
    VolumeDevice,
    VolumeMount,
)
from kvedge.resources.types.protection.export_job import (
    EXPORT_JOB_VARIABLE,
    MANIFESTS_KEY,
    OWN_DIRECTORY,
    TOKEN_DIRECTORY,
    ExportJob,
    ExportManifests,
    ServedVolume,
    volume_device,
    volume_directory,
)
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.services import Service, ServicePort, ServiceSpec
from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.quantities import Quantity
from kvedge.runtime.tls.authority_plan import Authorities
from kvedge.runtime.tls.certificates import LeafRequest

# On a Pod: which volumes it serves.
FINGERPRINT: Final = "kvedge.io/exported-volumes"
# KubeVirt's name of the volume.
_OWN: Final = "certificates"
_REQUESTS: Final[dict[str, Quantity]] = {"cpu": "100m", "memory": "60M"}
_LIMITS: Final[dict[str, Quantity]] = {"cpu": "2", "memory": "400M"}
_GRACE_SECONDS: Final = 1
_MOST_WEIGHT: Final = 100
_NOBODY_SEES: Final = 0o440
# A clock that is set while an export lasts shall not make its certificate useless.
_LIFE_AFTER: Final = timedelta(days=1)
# A Secret has room for a mebibyte, and base64 takes a third of it.
_LONGEST_MANIFESTS: Final = 600 << 10
_TOKEN_LETTERS: Final = string.ascii_letters + string.digits
# A mesh's proxy would never end; the exporter speaks TLS itself.
_WITHOUT_MESH: Final = {INJECT_SIDECAR: "false", "linkerd.io/inject": "disabled"}

_Use = tuple[PodVolume, VolumeMount | VolumeDevice]


class Certified(Struct, frozen=True):
    """By whom an exporter is certified, from when, and until when it is needed."""

    authority: Authorities
    now: datetime
    until: datetime


def fingerprint(volumes: Sequence[SourceVolume]) -> str:
    """What a Pod serves, in short."""
    parts = [[each.name, each.claim.metadata.uid, each.claim.is_block, each.disk] for each in volumes]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]


def exporter_pod(export: VirtualMachineExport, source: SourceSeen, until: datetime, cluster: ClusterConfig) -> Pod:
    """The Pod that serves these volumes."""
    meta, volumes = export.metadata, source.volumes
    name = exporter_name(meta.name)
    job = ExportJob(
        name=meta.name,
        volumes=[
            ServedVolume(name=each.name, block=each.claim.is_block, disk=each.disk, backup=each.backup)
            for each in volumes
        ],
        until=until.timestamp(),
    )
    token = export.spec.token_secret_ref or default_token_secret(meta.name)
    uses = [
        *_host_volumes(cluster),
        _secret("token", token, TOKEN_DIRECTORY),
        # By another name each time: the Secret goes with its Pod.
        _secret(_OWN, f"{name}-{secrets.token_hex(5)}", OWN_DIRECTORY),
        *(_claim(number, each) for number, each in enumerate(volumes)),
    ]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            # A user's labels and annotations are for meshes and network policies; ours count.
            labels={**meta.labels, "app": EXPORTER_APP, SERVICE_LABEL: name, INJECT_SIDECAR: "false"},
            annotations={**_WITHOUT_MESH, **meta.annotations, FINGERPRINT: fingerprint(volumes)},
            owner_references=[owner_reference(export)],
        ),
        spec=PodSpec(
            containers=[_container(job, uses, cluster)],
            volumes=[volume for volume, _ in uses],
            restart_policy="Never",
            termination_grace_period_seconds=_GRACE_SECONDS,
            automount_service_account_token=False,
            enable_service_links=False,
            security_context=make_pod_context(),
            affinity=_affinity(source),
        ),
    )


def _affinity(source: SourceSeen) -> JsonObject | None:
    """That of a backup of a VM that runs: rather on its node, where the launcher has just written the claim."""
    if not source.vm or all(each.backup is None for each in source.volumes):
        return None
    labels = {APP: LAUNCHER_APP, VMI_ID: as_label_value(source.vm)}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST_NAME}
    preferred = {"weight": _MOST_WEIGHT, "podAffinityTerm": term}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}


def own_secret(
    export: VirtualMachineExport, pod: Pod, certified: Certified, manifests: ExportManifests | None
) -> Secret:
    """The Secret of a Pod: its certificate, and the manifests that it hands out."""
    meta = export.metadata
    host = service_host(meta.namespace, meta.name)
    names = [server_name(meta.uid), host, f"{host}.cluster.local", host.removesuffix(".svc")]
    life = max(timedelta(0), certified.until - certified.now) + _LIFE_AFTER
    request = LeafRequest(server_name(meta.uid), hosts=names, client=False, life=life)
    material = certified.authority.issue(request, certified.now)
    parts = {"tls.crt": material.certificate, "tls.key": material.key}
    if manifests is not None:
        ca = certified.authority.bundle.decode()
        within = msgspec.structs.replace(manifests, base=f"https://{host}", ca=ca)
        packed = gzip.compress(encode_json(within), mtime=0)
        if len(packed) <= _LONGEST_MANIFESTS:
            parts[MANIFESTS_KEY] = packed
    kind = Pod.KIND
    owner = OwnerReference(
        api_version=kind.api_version, kind=kind.kind, name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    return Secret(
        metadata=ObjectMeta(name=own_secret_name(pod), namespace=meta.namespace, owner_references=[owner]),
        type="kubernetes.io/tls",
        data={key: base64.b64encode(value).decode("ascii") for key, value in parts.items()},
    )


def own_secret_name(pod: Pod) -> str:
    """The Secret that a Pod of ours waits for; empty for a Pod that is none."""
    found = (each.secret.secret_name for each in pod.spec.volumes if each.name == _OWN and each.secret is not None)
    return next(found, "")


def token_secret(export: VirtualMachineExport) -> Secret:
    """A Secret with a new token, for an export that names none."""
    token = "".join(secrets.choice(_TOKEN_LETTERS) for _ in range(TOKEN_LENGTH))
    meta = ObjectMeta(
        name=default_token_secret(export.metadata.name),
        namespace=export.metadata.namespace,
        owner_references=[owner_reference(export)],
    )
    return Secret(metadata=meta, type="Opaque", data={TOKEN_KEY: base64.b64encode(token.encode()).decode("ascii")})


def export_service(export: VirtualMachineExport) -> Service:
    """The Service that leads to the Pod."""
    name = exporter_name(export.metadata.name)
    port = ServicePort(name="export", port=SERVICE_PORT, protocol="TCP", target_port=EXPORT_PORT)
    return Service(
        metadata=ObjectMeta(
            name=name,
            namespace=export.metadata.namespace,
            labels={**export.metadata.labels, "app": EXPORTER_APP},
            annotations=dict(export.metadata.annotations),
            owner_references=[owner_reference(export)],
        ),
        spec=ServiceSpec(selector={SERVICE_LABEL: name}, ports=[port]),
    )


def _container(job: ExportJob, uses: Sequence[_Use], cluster: ClusterConfig) -> Container:
    return Container(
        name=EXPORTER_CONTAINER,
        image=LAUNCHER_IMAGE,
        image_pull_policy="Never",
        command=[*cluster.program, "export-server"],
        env=[EnvVar(name=EXPORT_JOB_VARIABLE, value=encode_json(job).decode())],
        ports=[ContainerPort(name="export", container_port=EXPORT_PORT)],
        resources=support_resources(cluster.support, VM_EXPORT, _REQUESTS, _LIMITS),
        volume_mounts=[use for _, use in uses if isinstance(use, VolumeMount)],
        volume_devices=[use for _, use in uses if isinstance(use, VolumeDevice)],
        readiness_probe=_READINESS,
        security_context=make_container_context(),
    )


# It is ready once it listens.
_READINESS: Final[JsonObject] = {"tcpSocket": {"port": EXPORT_PORT}, "periodSeconds": 1}


def _host_volumes(cluster: ClusterConfig) -> list[_Use]:
    paths = [
        ("host-usr", "/usr"),
        *((f"program-{number}", path) for number, path in enumerate(cluster.program_directories)),
    ]
    host: list[_Use] = [
        (
            PodVolume(name=name, host_path=HostPathVolume(path=path, type="Directory")),
            VolumeMount(name=name, mount_path=path, read_only=True),
        )
        for name, path in paths
    ]
    return [*host, (PodVolume(name="tmp", empty_dir=EmptyDirVolume()), VolumeMount(name="tmp", mount_path="/tmp"))]


def _secret(name: str, secret: str, path: str) -> _Use:
    volume = PodVolume(name=name, secret=SecretVolume(secret_name=secret, default_mode=_NOBODY_SEES))
    return volume, VolumeMount(name=name, mount_path=path, read_only=True)


def _claim(number: int, volume: SourceVolume) -> _Use:
    name = f"volume-{number}"
    source = PersistentVolumeClaimVolume(claim_name=volume.claim.metadata.name, read_only=True)
    made = PodVolume(name=name, persistent_volume_claim=source)
    if volume.claim.is_block:
        return made, VolumeDevice(name=name, device_path=volume_device(number))
    return made, VolumeMount(name=name, mount_path=volume_directory(number), read_only=True)
