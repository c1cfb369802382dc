"""StorageProfiles, the CDIConfig and DataSources: what DataVolumes may count on, kept true.

Called by storage_facts_loop.py. Pure: objects go in, the body of a merge patch comes out, empty when nothing is to be
done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from kvedge.controller.datavolumes.cdi_conditions import date_condition
from kvedge.controller.datavolumes.storage_facts.provisioners import find_property_sets
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.data_volume_names import (
    DEFAULT_OVERHEAD,
    INSTANCETYPE_LABELS,
    POD_PHASE,
    TOLD_LABELS,
    is_told_label,
)
from kvedge.resources.disks.claim_facts import is_populated
from kvedge.resources.types.data_volumes import (
    CdiCondition,
    CdiConfig,
    CdiConfigStatus,
    DataSource,
    DataSourceSource,
    DataSourceStatus,
    FilesystemOverhead,
    ObjectName,
    StorageProfile,
    StorageProfileStatus,
)
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from kvedge.resources.types.storage import (
    PersistentVolumeClaim,
    StorageClass,
)

CRON_FORMAT: Final = "pvc"
_READY: Final = "Ready"
_CONSUMABLE: Final = (_READY, "DataSource is ready to be consumed")


def profile_status(storage_class: StorageClass, profile: StorageProfile) -> StorageProfileStatus:
    """What holds for a class: what somebody has set, else what its provisioner is known for."""
    sets = profile.spec.claim_property_sets or find_property_sets(storage_class.provisioner)
    return StorageProfileStatus(
        storage_class=storage_class.metadata.name,
        provisioner=storage_class.provisioner,
        claim_property_sets=sets,
        # Whatever the profile asks for: an image that is looked for by a schedule becomes a claim.
        data_import_cron_source_format=CRON_FORMAT,
    )


def plan_profile(storage_class: StorageClass, profile: StorageProfile, now: datetime) -> JsonObject:
    """The status patch of a profile."""
    status = profile_status(storage_class, profile)
    if status.claim_property_sets:
        made = CdiCondition(type="Recognized", status="True", reason="RecognizedProvisioner")
    else:
        text = f"provisioner {storage_class.provisioner} is not known: set spec.claimPropertySets"
        made = CdiCondition(type="Recognized", status="False", reason="UnrecognizedProvisioner", message=text)
    status.conditions = [date_condition(profile.status.conditions, made, now)]
    body = merge_difference(encode(profile.status), encode(status))
    return {"status": body} if body else {}


def plan_config(config: CdiConfig, proxy_url: str, proxy_ca: str) -> JsonObject:
    """The patch of the CDIConfig; the proxy's URL and authority are empty while no proxy is known."""
    spec = config.spec
    wanted = spec.filesystem_overhead
    overhead = FilesystemOverhead(
        global_=(wanted.global_ if wanted else None) or DEFAULT_OVERHEAD,
        storage_class=dict(wanted.storage_class) if wanted else {},
    )
    status = CdiConfigStatus(
        upload_proxy_url=spec.upload_proxy_url_override or proxy_url or None,
        upload_proxy_ca=proxy_ca or None,
        filesystem_overhead=overhead,
        preallocation=spec.preallocation or False,
        default_pod_resource_requirements=spec.pod_resource_requirements,
    )
    body = merge_difference(encode(config.status), encode(status))
    return {"status": body} if body else {}


def plan_data_source(
    item: DataSource,
    other: Callable[[str], DataSource | None],
    claim_of: Callable[[str, str], PersistentVolumeClaim | None],
    snapshot_of: Callable[[str, str], VolumeSnapshot | None],
    now: datetime,
) -> JsonObject:
    """The patch of a DataSource, which also gets KubeVirt's labels of what it points at, and loses those of before.

    `other` gives the one of a name in its namespace, `claim_of` a claim, `snapshot_of` a VolumeSnapshot.
    """
    source, problem = _resolve(item, other)
    labels: Mapping[str, str] = {}
    if problem is None:
        problem, labels = _judge(item, source, claim_of, snapshot_of)
    condition = CdiCondition(type=_READY, status="False", reason=problem[0], message=problem[1])
    if problem[0] == _READY:
        condition.status = "True"
    # Ready of another source is another fact, and has a time of its own.
    before = item.status.conditions if item.status.source == source else []
    status = DataSourceStatus(source=source, conditions=[date_condition(before, condition, now)])
    change = merge_difference(encode(item.status), encode(status))
    body: JsonObject = {"status": change} if change else {}
    if problem[0] == _READY or item.status.source != source:
        told = {name: text for name, text in labels.items() if _is_told(name, own=_is_own(item, source))}
        body.update(_tell_labels(item, told))
    return body


def _tell_labels(item: DataSource, told: Mapping[str, str]) -> JsonObject:
    """The patch that gives a DataSource these labels, and takes away what it has of a source before.

    A label that it had already, of the same value, is its own and stays.
    """
    has = item.metadata.labels
    noted = item.metadata.annotations.get(TOLD_LABELS, "")
    before = {name for name in noted.split(",") if is_told_label(name)}
    new: JsonObject = {name: text for name, text in told.items() if has.get(name) != text}
    gone: JsonObject = dict.fromkeys(sorted(name for name in before - told.keys() if name in has))
    names = ",".join(sorted(new.keys() | before & told.keys()))
    metadata: JsonObject = {}
    if new or gone:
        metadata["labels"] = {**new, **gone}
    if names != noted:
        metadata["annotations"] = {TOLD_LABELS: names or None}
    return {"metadata": metadata} if metadata else {}


def _is_own(item: DataSource, source: DataSourceSource) -> bool:
    """Whether what it points at lies in its own namespace."""
    named = source.pvc or source.snapshot
    return named is None or named.namespace in ("", item.metadata.namespace)


def _is_told(label: str, *, own: bool) -> bool:
    """Whether a source's label is copied: of another namespace's source no more than VMs ask for."""
    return is_told_label(label) if own else label.startswith(INSTANCETYPE_LABELS)


def _resolve(
    item: DataSource, other: Callable[[str], DataSource | None]
) -> tuple[DataSourceSource, tuple[str, str] | None]:
    """Where it points in the end, and what is wrong with that."""
    pointer, nothing = item.spec.source.data_source, DataSourceSource()
    if pointer is None:
        return item.spec.source, None
    if pointer.namespace and pointer.namespace != item.metadata.namespace:
        return nothing, ("CrossNamespaceReference", "DataSource cannot reference a DataSource in another namespace")
    if pointer.name == item.metadata.name:
        return nothing, ("SelfReference", "DataSource cannot self-reference")
    found = other(pointer.name)
    if found is None:
        return nothing, ("NotFound", f"DataSource {pointer.name} not found")
    if found.spec.source.data_source is not None:
        return nothing, ("MaxReferenceDepthReached", "DataSource reference chain exceeds maximum depth of 1")
    return found.spec.source, None


def _judge(
    item: DataSource,
    source: DataSourceSource,
    claim_of: Callable[[str, str], PersistentVolumeClaim | None],
    snapshot_of: Callable[[str, str], VolumeSnapshot | None],
) -> tuple[tuple[str, str], Mapping[str, str]]:
    """Reason and message, and what labels the source has that is ready."""
    if source.snapshot is not None:
        return _judge_snapshot(item, source.snapshot, snapshot_of)
    if source.pvc is None:
        return ("NoSource", "No source PVC set"), {}
    namespace = source.pvc.namespace or item.metadata.namespace
    claim = claim_of(namespace, source.pvc.name)
    if claim is None:
        return ("NotFound", f"PVC {namespace}/{source.pvc.name} not found"), {}
    if not is_populated(claim):
        phase = claim.metadata.annotations.get(POD_PHASE)
        # A DataVolume's claim has its name.
        reason = "ImportInProgress" if phase else "Pending"
        return (reason, f"DataVolume {claim.metadata.name} is not done"), {}
    return _CONSUMABLE, claim.metadata.labels


def _judge_snapshot(
    item: DataSource, named: ObjectName, snapshot_of: Callable[[str, str], VolumeSnapshot | None]
) -> tuple[tuple[str, str], Mapping[str, str]]:
    namespace = named.namespace or item.metadata.namespace
    found = snapshot_of(namespace, named.name)
    if found is None:
        return ("NotFound", f"VolumeSnapshot {namespace}/{named.name} not found"), {}
    if not found.status.ready_to_use:
        return ("SnapshotNotReady", f"VolumeSnapshot {namespace}/{named.name} is not ready to use"), {}
    return _CONSUMABLE, found.metadata.labels
