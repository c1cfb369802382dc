"""The Pod that fills a claim: unprivileged, without a token, bounded, from the launcher's image and the host's /usr.

Called by worker_plan.py. Pure. It runs once: a worker that failed is deleted and another one is made, as the
controller counts the tries and waits between them; that is the same on one box and with a kubelet.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.controller.confinement import make_container_context, make_pod_context
from kvedge.controller.datavolumes.workers.worker_job_plan import (
    certificates_config_map,
    credentials_secret,
    header_secrets,
)
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.node_affinity import off_node, on_node
from kvedge.controller.vmi_claims import is_moving_to
from kvedge.resources.codec import JsonObject, encode_json
from kvedge.resources.data_volume_names import (
    APP,
    APP_LABEL,
    CLONE_TARGET,
    WORKER_CONTAINER,
    WORKER_LABEL,
    name_after,
)
from kvedge.resources.disks.uploads import clone_sender_name, upload_pod_name
from kvedge.resources.masquerade import INJECT_SIDECAR
from kvedge.resources.meta import ObjectMeta, OwnerReference, owner_reference
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.resources.types.core import (
    ConfigMapVolume,
    Container,
    EmptyDirVolume,
    EnvVar,
    HostPathVolume,
    ImageVolume,
    PersistentVolumeClaimVolume,
    Pod,
    PodSpec,
    PodVolume,
    ResourceRequirements,
    SecretVolume,
    VolumeDevice,
    VolumeMount,
)
from kvedge.resources.types.data_volumes import CdiConfig, DataVolume
from kvedge.resources.types.import_job import (
    CERTIFICATES_DIRECTORY,
    CREDENTIALS_DIRECTORY,
    HEADERS_DIRECTORY,
    JOB_VARIABLE,
    SOURCE_DEVICE,
    SOURCE_DIRECTORY,
    TARGET_DEVICE,
    TARGET_DIRECTORY,
    UPLOAD_CERTIFICATES_DIRECTORY,
    UPLOAD_PORT,
    ImportJob,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.quantities import Quantity
from kvedge.resources.vmi_facts import default_pull_policy

# A mesh stays out: its proxy never ends, and what workers speak to each other is encrypted already.
_WITHOUT_SIDECAR: Final = {INJECT_SIDECAR: "false"}
_WITHOUT_MESH: Final = {**_WITHOUT_SIDECAR, "linkerd.io/inject": "disabled"}
# Of a disk that is streamed, converted and checked in one pass: it takes a core, and little memory.
_REQUESTS: Final[dict[str, Quantity]] = {"cpu": "100m", "memory": "60M"}
_LIMITS: Final[dict[str, Quantity]] = {"cpu": "2", "memory": "600M"}
_LAST_WORD: Final = "/dev/termination-log"
_GRACE_SECONDS: Final = 10
_NOBODY_SEES: Final = 0o440


class WorkerPlace(Struct, frozen=True):
    """Where a worker runs and what it uses: its claim, the one it copies, and the guest that waits for it."""

    claim: PersistentVolumeClaim
    source: PersistentVolumeClaim | None = None
    consumer: VirtualMachineInstance | None = None


def worker_pod_name(claim: str, *, upload: bool) -> str:
    """The one worker Pod of a claim.

    >>> worker_pod_name("disk", upload=False)
    'importer-disk'
    """
    if upload:
        return upload_pod_name(claim)
    return name_after("importer-", claim)


def worker_pod(
    dv: DataVolume, job: ImportJob, place: WorkerPlace, cluster: ClusterConfig, config: CdiConfig | None
) -> Pod:
    """The Pod of a job."""
    name = worker_pod_name(place.claim.metadata.name, upload=job.listens)
    volumes = [*_host_volumes(cluster), *_object_volumes(dv, job, name), *_claim_volumes(place), *_image_volumes(job)]
    meta = ObjectMeta(
        name=name,
        namespace=dv.metadata.namespace,
        labels={APP_LABEL: APP, WORKER_LABEL: as_label_value(place.claim.metadata.name), **_WITHOUT_SIDECAR},
        annotations=dict(_WITHOUT_MESH),
        owner_references=[owner_reference(dv)],
    )
    spec = _pod_spec(job, volumes, cluster, config)
    spec.priority_class_name = dv.spec.priority_class_name
    spec.service_account_name = dv.spec.service_account_name or ""
    spec.node_selector = _node_selector(place, cluster)
    if place.consumer is not None:
        # The claim is bound where its worker runs: that must be where the guest can.
        spec.affinity = _affinity(place.consumer, place.claim.metadata.name)
        spec.tolerations = place.consumer.spec.tolerations
    return Pod(metadata=meta, spec=spec)


def sender_pod(
    dv: DataVolume, job: ImportJob, place: WorkerPlace, cluster: ClusterConfig, config: CdiConfig | None
) -> Pod:
    """The Pod that sends the place's source, in the source's namespace; nothing of another namespace can own it."""
    source = place.source
    assert source is not None
    name = clone_sender_name(place.claim.metadata.uid)
    volumes = [
        *_host_volumes(cluster),
        _secret("upload", name, UPLOAD_CERTIFICATES_DIRECTORY),
        _claim("source", source, (SOURCE_DIRECTORY, SOURCE_DEVICE), read_only=True),
    ]
    kind = PersistentVolumeClaim.KIND
    owner = OwnerReference(api_version=kind.version, kind=kind.kind, name=source.metadata.name, uid=source.metadata.uid)
    meta = ObjectMeta(
        name=name,
        namespace=source.metadata.namespace,
        labels={APP_LABEL: APP, CLONE_TARGET: dv.metadata.uid, **_WITHOUT_SIDECAR},
        annotations={CLONE_TARGET: f"{dv.metadata.namespace}/{dv.metadata.name}", **_WITHOUT_MESH},
        owner_references=[owner],
    )
    return Pod(metadata=meta, spec=_pod_spec(job, volumes, cluster, config))


def poll_pod(
    dv: DataVolume, job: ImportJob, owner: OwnerReference, cluster: ClusterConfig, config: CdiConfig | None
) -> Pod:
    """The Pod that looks at a DataVolume's source and fills nothing."""
    name = name_after("poll-", dv.metadata.name)
    volumes = [*_host_volumes(cluster), *_object_volumes(dv, job, name)]
    meta = ObjectMeta(
        name=name,
        namespace=dv.metadata.namespace,
        labels={APP_LABEL: APP, **_WITHOUT_SIDECAR},
        annotations=dict(_WITHOUT_MESH),
        owner_references=[owner],
    )
    return Pod(metadata=meta, spec=_pod_spec(job, volumes, cluster, config))


def _pod_spec(
    job: ImportJob,
    volumes: list[tuple[PodVolume, VolumeMount | VolumeDevice]],
    cluster: ClusterConfig,
    config: CdiConfig | None,
) -> PodSpec:
    return PodSpec(
        containers=[_container(job, volumes, cluster, config)],
        volumes=[volume for volume, _ in volumes],
        restart_policy="Never",
        termination_grace_period_seconds=_GRACE_SECONDS,
        automount_service_account_token=False,
        enable_service_links=False,
        security_context=make_pod_context(),
    )


def _node_selector(place: WorkerPlace, cluster: ClusterConfig) -> dict[str, str]:
    if place.consumer is None:
        return {}
    spec = place.consumer.spec
    architecture = {"kubernetes.io/arch": spec.architecture or cluster.default_architecture}
    return {**cluster.node_selectors, **spec.node_selector, **architecture}


def _affinity(consumer: VirtualMachineInstance, claim: str) -> JsonObject | None:
    node, own = consumer.status.node_name, consumer.spec.affinity
    if not node:
        return own
    # A guest that takes its data along leaves its node.
    return off_node(own, node) if is_moving_to(consumer, claim) else on_node(node)


def _container(
    job: ImportJob,
    volumes: list[tuple[PodVolume, VolumeMount | VolumeDevice]],
    cluster: ClusterConfig,
    config: CdiConfig | None,
) -> Container:
    wanted = None if config is None else config.status.default_pod_resource_requirements
    resources = ResourceRequirements(requests=dict(_REQUESTS), limits=dict(_LIMITS))
    if wanted:
        resources = ResourceRequirements(
            requests={**resources.requests, **(wanted.get("requests") or {})},
            limits={**resources.limits, **(wanted.get("limits") or {})},
        )
    uses = [use for _, use in volumes]
    return Container(
        name=WORKER_CONTAINER,
        image=LAUNCHER_IMAGE,
        image_pull_policy="Never",
        command=[*cluster.program, "import-worker"],
        env=[EnvVar(name=JOB_VARIABLE, value=encode_json(job).decode())],
        resources=resources,
        volume_mounts=[use for use in uses if isinstance(use, VolumeMount)],
        volume_devices=[use for use in uses if isinstance(use, VolumeDevice)],
        readiness_probe=_READINESS if job.listens else None,
        termination_message_path=_LAST_WORD,
        security_context=make_container_context(),
    )


# A worker that takes an upload is ready once it listens.
_READINESS: Final[JsonObject] = {"tcpSocket": {"port": UPLOAD_PORT}, "periodSeconds": 1, "initialDelaySeconds": 1}

_Use = tuple[PodVolume, VolumeMount | VolumeDevice]


def _host_volumes(cluster: ClusterConfig) -> list[_Use]:
    directories = [
        ("host-usr", "/usr"),
        *((f"program-{n}", path) for n, path in enumerate(cluster.program_directories)),
    ]
    host: list[_Use] = [
        (
            PodVolume(name=name, host_path=HostPathVolume(path=path, type="Directory")),
            VolumeMount(name=name, mount_path=path, read_only=True),
        )
        for name, path in directories
    ]
    return [*host, (PodVolume(name="tmp", empty_dir=EmptyDirVolume()), VolumeMount(name="tmp", mount_path="/tmp"))]


def _object_volumes(dv: DataVolume, job: ImportJob, pod_name: str) -> list[_Use]:
    made: list[_Use] = []
    secret, config_map = credentials_secret(dv), certificates_config_map(dv)
    if secret:
        made.append(_secret("credentials", secret, CREDENTIALS_DIRECTORY))
    if config_map:
        volume = PodVolume(name="certificates", config_map=ConfigMapVolume(name=config_map))
        made.append((volume, VolumeMount(name="certificates", mount_path=CERTIFICATES_DIRECTORY, read_only=True)))
    headers = header_secrets(dv)
    for number, name in enumerate(headers):
        # The worker reads one header from each file; several Secrets have a directory each, as keys may be the same.
        path = HEADERS_DIRECTORY if len(headers) == 1 else f"{HEADERS_DIRECTORY}/{number}"
        made.append(_secret(f"headers-{number}", name, path))
    if job.listens:
        made.append(_secret("upload", pod_name, UPLOAD_CERTIFICATES_DIRECTORY))
    return made


def _secret(name: str, secret: str, path: str) -> _Use:
    volume = PodVolume(name=name, secret=SecretVolume(secret_name=secret, default_mode=_NOBODY_SEES))
    return volume, VolumeMount(name=name, mount_path=path, read_only=True)


def _claim_volumes(place: WorkerPlace) -> list[_Use]:
    made = [_claim("target", place.claim, (TARGET_DIRECTORY, TARGET_DEVICE), read_only=False)]
    if place.source is not None and place.source.metadata.namespace == place.claim.metadata.namespace:
        made.append(_claim("source", place.source, (SOURCE_DIRECTORY, SOURCE_DEVICE), read_only=True))
    return made


def _image_volumes(job: ImportJob) -> list[_Use]:
    if job.image is None:
        return []
    image = ImageVolume(reference=job.image.name, pull_policy=default_pull_policy(job.image.name))
    volume = PodVolume(name="image", image=image)
    return [(volume, VolumeMount(name="image", mount_path=SOURCE_DIRECTORY, read_only=True))]


def _claim(name: str, claim: PersistentVolumeClaim, paths: tuple[str, str], *, read_only: bool) -> _Use:
    source = PersistentVolumeClaimVolume(claim_name=claim.metadata.name, read_only=read_only)
    volume = PodVolume(name=name, persistent_volume_claim=source)
    if claim.is_block:
        return volume, VolumeDevice(name=name, device_path=paths[1])
    return volume, VolumeMount(name=name, mount_path=paths[0], read_only=read_only)
