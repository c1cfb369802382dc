"""What a worker is told that fills a DataVolume's claim.

Called by worker_plan.py. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.resources.data_volume_names import ARCHIVE_CONTENT
from kvedge.resources.disks.data_volume_checks import oci_archive_url
from kvedge.resources.disks.state_claims import STATE_LABEL
from kvedge.resources.disks.uploads import upload_server_name
from kvedge.resources.types.data_volumes import CdiConfig, DataVolume, DataVolumeSourceRegistry
from kvedge.resources.types.import_job import (
    CloneSource,
    CloneTarget,
    HttpSource,
    ImageSource,
    ImportJob,
    RegistrySource,
    S3Source,
)
from kvedge.resources.types.storage import PersistentVolumeClaim

_DOCKER: Final = "docker://"
_BY_NODE: Final = "node"


def worker_job(
    dv: DataVolume,
    claim: PersistentVolumeClaim,
    size: int,
    source: PersistentVolumeClaim | None,
    config: CdiConfig | None,
    cluster: ClusterConfig,
) -> ImportJob:
    """The job; `size` is the disk's in bytes, `source` the claim that is copied."""
    origin = dv.spec.source
    job = ImportJob(
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        size=size,
        block=claim.is_block,
        preallocate=preallocates(dv, config),
        archive=dv.spec.content_type == ARCHIVE_CONTENT,
    )
    _set_origin(job, dv, config, by_node=cluster.image_volumes)
    if source is not None:
        remote = source.metadata.namespace != dv.metadata.namespace
        job.clone = CloneSource(block=source.is_block, remote=remote, state=_keeps_state(source))
    job.upload = origin is not None and origin.upload is not None
    return job


def poll_job(dv: DataVolume, config: CdiConfig | None) -> ImportJob:
    """The job that tells the digest of what a source has now."""
    job = ImportJob(name=dv.metadata.name, poll=True)
    # The node's own image may be old: the registry is asked.
    _set_origin(job, dv, config, by_node=False)
    return job


def _set_origin(job: ImportJob, dv: DataVolume, config: CdiConfig | None, *, by_node: bool) -> None:
    origin = dv.spec.source
    if origin is None:
        return
    if origin.http is not None:
        http = origin.http
        job.http = HttpSource(
            url=http.url,
            checksum=http.checksum,
            extra_headers=list(http.extra_headers),
            insecure_skip_verify=bool(http.insecure_skip_verify),
        )
    elif origin.registry is not None and (url := oci_archive_url(origin.registry.url or "")):
        job.http = HttpSource(url=url, is_archive=True)
    elif origin.registry is not None:
        if by_node and _comes_by_node(origin.registry):
            job.image = ImageSource(name=_image_name(origin.registry))
        else:
            job.registry = _registry(origin.registry, config)
    elif origin.s3 is not None:
        job.s3 = S3Source(url=origin.s3.url)
    elif origin.gcs is not None:
        job.s3 = S3Source(url=origin.gcs.url, gcs=True)


def sender_job(claim: PersistentVolumeClaim, source: PersistentVolumeClaim, address: str) -> ImportJob:
    """The job of the worker that sends a claim of another namespace to the one at `address`, which fills `claim`."""
    return ImportJob(
        name=source.metadata.name,
        clone=CloneSource(block=source.is_block, state=_keeps_state(source)),
        send=CloneTarget(address=address, server_name=upload_server_name(claim.metadata.uid)),
    )


def _keeps_state(source: PersistentVolumeClaim) -> bool:
    return not source.is_block and STATE_LABEL in source.metadata.labels


def preallocates(dv: DataVolume, config: CdiConfig | None) -> bool:
    """Whether a disk gets all its blocks at once: by its DataVolume's word, else by the configuration's."""
    if dv.spec.preallocation is not None:
        return dv.spec.preallocation
    return config is not None and bool(config.status.preallocation)


def credentials_secret(dv: DataVolume) -> str:
    """The Secret with which its source is read; empty for none."""
    origin = dv.spec.source
    if origin is None:
        return ""
    for part in (origin.http, origin.registry, origin.s3, origin.gcs):
        if part is not None:
            return part.secret_ref or ""
    return ""


def certificates_config_map(dv: DataVolume) -> str:
    """The ConfigMap with the authorities that its source is trusted by; empty for none."""
    origin = dv.spec.source
    if origin is None:
        return ""
    for part in (origin.http, origin.registry, origin.s3):
        if part is not None:
            return part.cert_config_map or ""
    return ""


def header_secrets(dv: DataVolume) -> list[str]:
    """The Secrets of which every key is a header of the requests."""
    http = None if dv.spec.source is None else dv.spec.source.http
    return [] if http is None else list(http.secret_extra_headers)


def _comes_by_node(source: DataVolumeSourceRegistry) -> bool:
    """Whether the node is to pull the image: not with what only the worker can use to reach the registry."""
    needs_worker = source.secret_ref or source.cert_config_map or source.platform is not None
    return source.pull_method == _BY_NODE and not needs_worker


def _image_name(source: DataVolumeSourceRegistry) -> str:
    return (source.url or "").removeprefix(_DOCKER)


def _registry(source: DataVolumeSourceRegistry, config: CdiConfig | None) -> RegistrySource:
    url = source.url or ""
    host = _image_name(source).partition("/")[0]
    insecure = [] if config is None else config.spec.insecure_registries
    return RegistrySource(
        url=url,
        architecture="" if source.platform is None else source.platform.architecture,
        insecure=host in insecure,
    )
