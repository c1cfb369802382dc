"""Volumes and the claims on them. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import CORE, BuiltinKind, starts_as
from kvedge.standalone.apiserver.kinds.defaulting import set_missing, spec_of
from kvedge.standalone.apiserver.kinds.rules import storage_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column, at, text
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES, IN_PODS

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _set_volume_mode(obj: JsonObject) -> None:
    set_missing(spec_of(obj), volumeMode="Filesystem")


def _set_volume_defaults(obj: JsonObject) -> None:
    set_missing(spec_of(obj), volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")


def _modes(path: str) -> Column:
    def cell(obj: JsonObject, now: datetime) -> str:
        return ",".join(_ACCESS_MODES.get(mode, mode) for mode in at(obj, path, []))

    return Column("Access Modes", cell, description="How the volume can be mounted.")


def _claim(volume: JsonObject, now: datetime) -> str:
    claim = at(volume, "spec.claimRef")
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def _status(claim: JsonObject, now: datetime) -> str:
    return "Terminating" if at(claim, "metadata.deletionTimestamp") else str(at(claim, "status.phase", ""))


KINDS: Final = (
    BuiltinKind(
        *CORE,
        kind="PersistentVolumeClaim",
        plural="persistentvolumeclaims",
        short_names=("pvc",),
        subresources=("status",),
        columns=(
            NAME,
            Column("Status", _status),
            text("Volume", "spec.volumeName"),
            text("Capacity", "status.capacity.storage"),
            _modes("status.accessModes"),
            text("StorageClass", "spec.storageClassName"),
            AGE,
            text("VolumeMode", "spec.volumeMode", "Filesystem", 1),
        ),
        set_defaults=_set_volume_mode,
        initial_status=starts_as("Pending"),
        check=storage_rules.check_claim,
        check_update=storage_rules.check_claim_update,
        checks_changed_specs_only=True,
        returned_when_deleted=True,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        *CORE,
        kind="PersistentVolume",
        plural="persistentvolumes",
        namespaced=False,
        short_names=("pv",),
        subresources=("status",),
        columns=(
            NAME,
            text("Capacity", "spec.capacity.storage"),
            _modes("spec.accessModes"),
            text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
            Column("Status", _status),
            Column("Claim", _claim),
            text("StorageClass", "spec.storageClassName"),
            text("Reason", "status.reason"),
            AGE,
            text("VolumeMode", "spec.volumeMode", "Filesystem", 1),
        ),
        set_defaults=_set_volume_defaults,
        initial_status=starts_as("Pending"),
        metadata_with_status=True,
        check=storage_rules.check_volume,
        check_update=storage_rules.check_volume_update,
        checks_changed_specs_only=True,
        returned_when_deleted=True,
        protobuf=IN_PODS,
    ),
)
