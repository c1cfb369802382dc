"""Claims, volumes and classes for the tests of this folder, each with only what a test says about it."""

from __future__ import annotations

from typing import Any

from kvedge.resources.codec import decode
from kvedge.resources.data_volume_names import DEFAULT_CLASS
from kvedge.resources.types.core import Node
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.standalone.volumes.volume_words import BIND_COMPLETED, PROVISIONED_BY, PROVISIONER

UID = "aaaaaaaa-0000-0000-0000-000000000001"


def node(name: str = "box") -> Node:
    """A node."""
    return decode(Node, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})


def claim(size: str = "1Gi", *, phase: str = "Pending", notes: dict[str, str] | None = None, **spec: Any) -> Any:
    """A claim of the class kvedge, unless `spec` says otherwise."""
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "kvedge",
        **spec,
    }
    meta = {"name": "data", "namespace": "default", "uid": UID, "annotations": notes or {}}
    return decode(PersistentVolumeClaim, {"metadata": meta, "spec": wanted, "status": {"phase": phase}})


def bound_claim(volume: str = "pv", **spec: Any) -> Any:
    """A claim that has this volume."""
    return claim(phase="Bound", notes={BIND_COMPLETED: "yes"}, volumeName=volume, **spec)


def volume(name: str = "pv", size: str = "1Gi", *, phase: str = "Available", ours: bool = False, **spec: Any) -> Any:
    """A volume of the class kvedge, unless `spec` says otherwise."""
    wanted = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "kvedge",
        "persistentVolumeReclaimPolicy": "Delete",
        **spec,
    }
    notes = {PROVISIONED_BY: PROVISIONER} if ours else {}
    document = {"metadata": {"name": name, "annotations": notes}, "spec": wanted, "status": {"phase": phase}}
    return decode(PersistentVolume, document)


def ref(uid: str = UID, name: str = "data") -> dict[str, str]:
    """The claimRef of a claim."""
    return {"namespace": "default", "name": name, "uid": uid}


def storage_class(name: str = "kvedge", *, default: bool = False, created: str = "", **fields: Any) -> Any:
    """A class of ours, unless `fields` say otherwise."""
    meta = {"name": name, "annotations": {DEFAULT_CLASS: "true"} if default else {}}
    if created:
        meta["creationTimestamp"] = created
    return decode(StorageClass, {"metadata": meta, "provisioner": PROVISIONER, **fields})
