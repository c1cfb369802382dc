"""The Pods that carry disks into a repository of backups and back: unprivileged, without a token, from the host's /usr.

Called by the plans of runs and restores. Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.controller.confinement import make_container_context, make_pod_context
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.node_affinity import near
from kvedge.resources.codec import DecodeError, JsonObject, decode_json, encode_json
from kvedge.resources.disks.snapshot_names import BACKUP_WORKER
from kvedge.resources.masquerade import INJECT_SIDECAR
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.names import LAUNCHER_IMAGE, VMI_ID
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import (
    Container,
    EmptyDirVolume,
    EnvVar,
    HostPathVolume,
    PersistentVolumeClaimVolume,
    Pod,
    PodSpec,
    PodVolume,
    ResourceRequirements,
    SecretVolume,
    VolumeDevice,
    VolumeMount,
)
from kvedge.resources.types.protection.backup_job import (
    BACKUP_CONTAINER,
    BACKUP_SECRET_DIRECTORY,
    BACKUP_VARIABLE,
    REPOSITORY_DIRECTORY,
    VOLUME_DEVICES,
    VOLUMES_DIRECTORY,
    BackupJob,
    BackupOutcome,
)
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.quantities import Quantity

_VERB: Final = "backup-worker"
_WITHOUT_SIDECAR: Final = {INJECT_SIDECAR: "false"}
_WITHOUT_MESH: Final = {**_WITHOUT_SIDECAR, "linkerd.io/inject": "disabled"}
# restic has the index of the whole repository in memory.
_REQUESTS: Final[dict[str, Quantity]] = {"cpu": "100m", "memory": "100M"}
_LIMITS: Final[dict[str, Quantity]] = {"cpu": "2", "memory": "2G"}
_CERTIFICATES: Final = "/etc/ssl/certs"
_LAST_WORD: Final = "/dev/termination-log"
_GRACE_SECONDS: Final = 20
_NOBODY_SEES: Final = 0o440
_LONGEST_MESSAGE: Final = 1024
# Of workers for one errand, and the pauses between them.
MOST_ATTEMPTS: Final = 5
_RETRY_SECONDS: Final = (10.0, 30.0, 120.0, 300.0)

_Use = tuple[PodVolume, VolumeMount | VolumeDevice]


def repository_name(repository: BackupRepository) -> str:
    """restic's name of the place, in the Pod."""
    return repository.spec.url or f"{REPOSITORY_DIRECTORY}/kvedge"


def worker_pod(
    owner: BackupRun | BackupRestore | BackupTask,
    job: BackupJob,
    repository: BackupRepository,
    claims: dict[str, tuple[str, bool]],
    cluster: ClusterConfig,
) -> Pod:
    """The Pod of a job; `claims` are the volumes' by their place, each with whether it is of mode Block."""
    volumes = [*_host_volumes(cluster), _secret(repository.spec.secret_name)]
    if repository.spec.url:
        # By the host's authorities servers are known.
        volumes.append(_directory("host-certificates", _CERTIFICATES, "DirectoryOrCreate"))
    if repository.spec.claim_name:
        volumes.append(_claim("repository", repository.spec.claim_name, REPOSITORY_DIRECTORY, read_only=False))
    read_only = job.mode == "backup"
    for number, (place, (claim, block)) in enumerate(claims.items()):
        path = f"{VOLUME_DEVICES}/{place}" if block else f"{VOLUMES_DIRECTORY}/{place}"
        volumes.append(_claim(f"volume-{number}", claim, path, read_only=read_only, block=block))
    return Pod(
        metadata=ObjectMeta(
            name=f"{job.mode}-{owner.metadata.uid}",
            namespace=owner.metadata.namespace,
            labels={BACKUP_WORKER: owner.metadata.uid, **_WITHOUT_SIDECAR},
            annotations=dict(_WITHOUT_MESH),
            owner_references=[owner_reference(owner)],
        ),
        spec=PodSpec(
            containers=[_container(job, [use for _, use in volumes], cluster)],
            volumes=[volume for volume, _ in volumes],
            restart_policy="Never",
            termination_grace_period_seconds=_GRACE_SECONDS,
            automount_service_account_token=False,
            enable_service_links=False,
            security_context=make_pod_context(),
            affinity=_near_guest(owner) if job.mode == "serve" else None,
        ),
    )


def _near_guest(owner: BackupRun | BackupRestore | BackupTask) -> JsonObject | None:
    """Rather where the guest is: it has the disks by a socket, which is of one node."""
    guest = owner.target if isinstance(owner, BackupRestore) else ""
    return near(None, VMI_ID, [as_label_value(guest)] if guest else [])


def is_worker(pod: Pod, owner: BackupRun | BackupRestore | BackupTask, mode: str) -> bool:
    """Whether a Pod is what :func:`worker_pod` makes for this owner: its end counts as the errand's.

    Others may make Pods in the namespace, of any name and with any owner: one that is not told this errand, or runs
    anything else or beside it, has done nothing.
    """
    reference, spec = pod.metadata.controller_reference(), pod.spec
    if reference is None or (reference.kind, reference.uid) != (owner.KIND.kind, owner.metadata.uid):
        return False
    if pod.metadata.labels.get(BACKUP_WORKER) != owner.metadata.uid or len(spec.containers) != 1:
        return False
    container, job = spec.containers[0], job_of(pod)
    return (
        job is not None
        and job.mode == mode
        and container.name == BACKUP_CONTAINER
        and container.image == LAUNCHER_IMAGE
        and container.command[-1:] == [_VERB]
        and not container.args
        and [each.name for each in container.env] == [BACKUP_VARIABLE]
        and spec.automount_service_account_token is False
        and spec.service_account_name in ("", "default")
    )


def has_ended(pod: Pod) -> bool:
    """Whether its errand is over, one way or the other."""
    return pod.status.phase in FINAL_POD_PHASES


def has_succeeded(pod: Pod) -> bool:
    """Whether its errand is done."""
    return pod.status.phase == "Succeeded"


def outcome_of(pod: Pod) -> BackupOutcome:
    """What a worker has left, within bounds."""
    states = (each.state for each in pod.status.container_statuses if each.name == BACKUP_CONTAINER)
    ended = next((state.terminated for state in states if state is not None and state.terminated is not None), None)
    text = "" if ended is None else ended.message
    try:
        outcome = decode_json(BackupOutcome, text) if text.startswith("{") else BackupOutcome(message=text)
    except DecodeError:
        outcome = BackupOutcome(message=text)
    if not outcome.message:
        reason = "" if ended is None else ended.reason
        outcome.message = f"the worker has ended without a word{f': {reason}' if reason else ''}"
    outcome.message = outcome.message[:_LONGEST_MESSAGE]
    return outcome


def count_seconds_to_wait(attempts: int, failed_at: str | None, now: datetime) -> float:
    """For how long no other worker is made after one that failed."""
    if not failed_at:
        return 0.0
    # What had to wait for somebody else in the repository was no attempt.
    pause = _RETRY_SECONDS[min(max(1, attempts), len(_RETRY_SECONDS)) - 1]
    return pause - (now - datetime.fromisoformat(failed_at)).total_seconds()


def job_of(pod: Pod) -> BackupJob | None:
    """What a worker was told; None when the Pod is none of ours."""
    found = [env.value for each in pod.spec.containers for env in each.env if env.name == BACKUP_VARIABLE]
    try:
        return decode_json(BackupJob, found[0] or "") if found else None
    except DecodeError:
        return None


def token_of(pod: Pod) -> str:
    """By which the worker knows the controller; empty when the Pod is none of ours."""
    job = job_of(pod)
    return "" if job is None else job.token


def why_waiting(pod: Pod) -> str:
    """Why a worker does not run yet; empty when that is not known."""
    for each in pod.status.conditions:
        if each.type == "PodScheduled" and each.status == "False":
            return each.message or each.reason
    for state in (status.state for status in pod.status.container_statuses):
        if state is not None and state.waiting is not None:
            return state.waiting.message or state.waiting.reason
    return ""


def _container(job: BackupJob, uses: list[VolumeMount | VolumeDevice], cluster: ClusterConfig) -> Container:
    return Container(
        name=BACKUP_CONTAINER,
        image=LAUNCHER_IMAGE,
        image_pull_policy="Never",
        command=[*cluster.program, _VERB],
        env=[EnvVar(name=BACKUP_VARIABLE, value=encode_json(job).decode())],
        resources=ResourceRequirements(requests=dict(_REQUESTS), limits=dict(_LIMITS)),
        volume_mounts=[use for use in uses if isinstance(use, VolumeMount)],
        volume_devices=[use for use in uses if isinstance(use, VolumeDevice)],
        termination_message_path=_LAST_WORD,
        security_context=make_container_context(),
    )


def _host_volumes(cluster: ClusterConfig) -> list[_Use]:
    paths = [("host-usr", "/usr"), *((f"program-{n}", path) for n, path in enumerate(cluster.program_directories))]
    host = [_directory(name, path, "Directory") for name, path in paths]
    return [*host, (PodVolume(name="tmp", empty_dir=EmptyDirVolume()), VolumeMount(name="tmp", mount_path="/tmp"))]


def _directory(name: str, path: str, kind: str) -> _Use:
    volume = PodVolume(name=name, host_path=HostPathVolume(path=path, type=kind))
    return volume, VolumeMount(name=name, mount_path=path, read_only=True)


def _secret(name: str) -> _Use:
    volume = PodVolume(name="secret", secret=SecretVolume(secret_name=name, default_mode=_NOBODY_SEES))
    return volume, VolumeMount(name="secret", mount_path=BACKUP_SECRET_DIRECTORY, read_only=True)


def _claim(name: str, claim: str, path: str, *, read_only: bool, block: bool = False) -> _Use:
    source = PersistentVolumeClaimVolume(claim_name=claim, read_only=read_only)
    volume = PodVolume(name=name, persistent_volume_claim=source)
    if block:
        return volume, VolumeDevice(name=name, device_path=path)
    return volume, VolumeMount(name=name, mount_path=path, read_only=read_only)
