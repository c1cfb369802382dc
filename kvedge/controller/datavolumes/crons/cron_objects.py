"""What a DataImportCron makes: DataVolumes by the digest of what they import, and the DataSource that points at one.

Called by cron_plan.py. Pure. What shall go with the DataImportCron is owned by it, everything else only labelled.
"""

from __future__ import annotations

import copy
import re
from typing import Final

from kvedge.resources.data_volume_names import BIND_IMMEDIATELY, CRON_LABEL, is_told_label
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import (
    DataSource,
    DataSourceSource,
    DataSourceSpec,
    DataVolume,
    DataVolumeOrigin,
    ObjectName,
)

RETAIN_NONE: Final = "None"
# CDI's: so many digits of a digest are in a name.
_DIGITS: Final = 12
_LONGEST_PREFIX: Final = 240
_NAME_END: Final = re.compile(rf"[0-9a-f]{{{_DIGITS}}}")


def import_name(cron: DataImportCron, digest: str) -> str:
    """The DataVolume of a digest.

    >>> from kvedge.resources.types.data_import_cron import DataImportCronSpec
    >>> cron = DataImportCron(spec=DataImportCronSpec(managed_data_source="linux"))
    >>> import_name(cron, "sha256:0123456789abcdef")
    'linux-0123456789ab'
    """
    return f"{_prefix(cron)}-{digest.rpartition(':')[2][:_DIGITS]}"


def is_import(cron: DataImportCron, dv: DataVolume) -> bool:
    """Whether a DataVolume is one that this DataImportCron has made: anybody may label one so."""
    prefix, _, end = dv.metadata.name.rpartition("-")
    owner = dv.metadata.controller_reference()
    is_named_so = prefix == _prefix(cron) and _NAME_END.fullmatch(end) is not None
    is_labelled = dv.metadata.labels.get(CRON_LABEL) == cron.metadata.name
    return is_labelled and is_named_so and (owner is None or owner.uid == cron.metadata.uid)


def import_of(cron: DataImportCron, digest: str) -> DataVolume:
    """The DataVolume to make: the template's, for this very digest where the source knows digests.

    It has KubeVirt's labels of the DataImportCron, too: they come to its claim, and from there to the DataSource.
    """
    template = cron.spec.template
    meta = _meta(cron, import_name(cron, digest))
    told = {name: text for name, text in cron.metadata.labels.items() if is_told_label(name)}
    meta.labels = {**template.metadata.labels, **told, **meta.labels}
    # No VM uses an image before it is there.
    meta.annotations = {BIND_IMMEDIATELY: "", **template.metadata.annotations}
    made = DataVolume(metadata=meta, spec=copy.deepcopy(template.spec))
    registry = None if made.spec.source is None else made.spec.source.registry
    if registry is not None and registry.url:
        registry.url = pin_url(registry.url, digest)
    return made


def pin_url(url: str, digest: str) -> str:
    """A registry's URL with a digest in place of a tag.

    >>> pin_url("docker://registry:5000/linux:9", "sha256:ab")
    'docker://registry:5000/linux@sha256:ab'
    """
    name = url.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}@{digest}"


def data_source_of(cron: DataImportCron, claim: str) -> DataSource:
    """The DataSource, pointing at this claim."""
    pvc = ObjectName(name=claim, namespace=cron.metadata.namespace)
    return DataSource(
        metadata=_meta(cron, cron.spec.managed_data_source),
        spec=DataSourceSpec(source=DataSourceSource(pvc=pvc)),
    )


def source_of(cron: DataImportCron) -> DataVolumeOrigin | None:
    """What is polled; None when it cannot be."""
    source = cron.spec.template.spec.source
    if source is None:
        return None
    return source if source.registry or source.http or source.s3 or source.gcs else None


def owner_of_cron(cron: DataImportCron) -> OwnerReference:
    """A DataImportCron as an owner."""
    kind = DataImportCron.KIND
    return OwnerReference(
        api_version=kind.api_version, kind=kind.kind, name=cron.metadata.name, uid=cron.metadata.uid, controller=True
    )


def _prefix(cron: DataImportCron) -> str:
    return cron.spec.managed_data_source[:_LONGEST_PREFIX].rstrip(".-")


def _meta(cron: DataImportCron, name: str) -> ObjectMeta:
    owners = [owner_of_cron(cron)] if cron.spec.retention_policy == RETAIN_NONE else []
    return ObjectMeta(
        name=name,
        namespace=cron.metadata.namespace,
        labels={CRON_LABEL: cron.metadata.name},
        owner_references=owners,
    )
