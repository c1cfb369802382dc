"""The kinds of snapshot.storage.k8s.io: snapshots of claims. See `builtin_kind`.

In a cluster they are CustomResourceDefinitions of the external-snapshotter's, whose rules are written in CEL; here the
rows have them, and the definitions are there for those who look for them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.custom.own_crds import describe_own_kind
from kvedge.standalone.apiserver.kinds.rules import snapshot_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column, at, text
from kvedge.standalone.apiserver.kinds.types.builtin_schemas import schema_of
from kvedge.standalone.apiserver.wire.human_ages import age

GROUP_VERSION: Final = ("snapshot.storage.k8s.io", "v1")


def _value(name: str, path: str, type_: str) -> Column:
    """A column that is empty where nothing is known, and shows a `false` or a 0 as such."""

    def cell(obj: JsonObject, now: datetime) -> Any:
        return at(obj, path)

    return Column(name, cell, type=type_)


def _show_moment(obj: JsonObject, now: datetime) -> Any:
    moment = at(obj, "status.creationTime")
    return None if moment is None else age(moment, now)


KINDS: Final = (
    BuiltinKind(
        *GROUP_VERSION,
        kind="VolumeSnapshot",
        plural="volumesnapshots",
        short_names=("vs",),
        singular="volumesnapshot",
        subresources=("status",),
        counts_generation=True,
        columns=(
            NAME,
            _value("ReadyToUse", "status.readyToUse", "boolean"),
            text("SourcePVC", "spec.source.persistentVolumeClaimName"),
            text("SourceSnapshotContent", "spec.source.volumeSnapshotContentName"),
            text("RestoreSize", "status.restoreSize"),
            text("SnapshotClass", "spec.volumeSnapshotClassName"),
            text("SnapshotContent", "status.boundVolumeSnapshotContentName"),
            Column("CreationTime", _show_moment),
            AGE,
        ),
        check=snapshot_rules.check_snapshot,
        check_update=snapshot_rules.check_snapshot_update,
    ),
    BuiltinKind(
        *GROUP_VERSION,
        kind="VolumeSnapshotContent",
        plural="volumesnapshotcontents",
        namespaced=False,
        short_names=("vsc", "vscs"),
        singular="volumesnapshotcontent",
        subresources=("status",),
        counts_generation=True,
        columns=(
            NAME,
            _value("ReadyToUse", "status.readyToUse", "boolean"),
            _value("RestoreSize", "status.restoreSize", "integer"),
            text("DeletionPolicy", "spec.deletionPolicy"),
            text("Driver", "spec.driver"),
            text("VolumeSnapshotClass", "spec.volumeSnapshotClassName"),
            text("VolumeSnapshot", "spec.volumeSnapshotRef.name"),
            text("VolumeSnapshotNamespace", "spec.volumeSnapshotRef.namespace"),
            AGE,
        ),
        check=snapshot_rules.check_content,
        check_update=snapshot_rules.check_content_update,
    ),
    BuiltinKind(
        *GROUP_VERSION,
        kind="VolumeSnapshotClass",
        plural="volumesnapshotclasses",
        namespaced=False,
        short_names=("vsclass", "vsclasses"),
        singular="volumesnapshotclass",
        counts_generation=True,
        columns=(NAME, text("Driver", "driver"), text("DeletionPolicy", "deletionPolicy"), AGE),
        check=snapshot_rules.check_class,
    ),
)


def definitions() -> list[JsonObject]:
    """The CustomResourceDefinitions by which tools look for these kinds."""
    return [describe_own_kind(kind, str((schema_of(kind.group, kind.kind) or {})["description"])) for kind in KINDS]
