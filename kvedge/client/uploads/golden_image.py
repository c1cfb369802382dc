"""A claim from an image of the box's store, and the DataSource by which DataVolumes clone it.

Called by `image import --datasource` and by uploads. Each image has a claim of its own: a newer import makes another
one, and leads the DataSource there. Talks to the API server; prints nothing.
"""

from __future__ import annotations

import hashlib
from typing import Final

from kvedge.client.session import Session
from kvedge.kube.errors import AlreadyExists
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import BIND_IMMEDIATELY
from kvedge.resources.types.data_volumes import DataSource, DataVolume

_MERGE: Final = "application/merge-patch+json"
_MIB: Final = 1 << 20


def claim_name(data_source: str, image_id: str) -> str:
    """The claim of an image, and its DataVolume.

    >>> claim_name("fedora", "sha256:1")
    'fedora-51ae7fa00c92'
    """
    return f"{data_source}-{hashlib.sha256(image_id.encode()).hexdigest()[:12]}"


def golden_volume(name: str, image: str, size: int, storage_class: str) -> JsonObject:
    """The DataVolume that the node fills from an image that it has; `size` is the disk's, in bytes."""
    storage: JsonObject = {"resources": {"requests": {"storage": str(-(-size // _MIB) * _MIB)}}}
    if storage_class:
        storage["storageClassName"] = storage_class
    return {
        "apiVersion": DataVolume.KIND.api_version,
        "kind": DataVolume.KIND.kind,
        # No VM will use this claim, so it is bound at once: its clones wait until it is filled.
        "metadata": {"name": name, "annotations": {BIND_IMMEDIATELY: ""}},
        "spec": {"source": {"registry": {"url": f"docker://{image}", "pullMethod": "node"}}, "storage": storage},
    }


def make_golden_volume(session: Session, document: JsonObject) -> bool:
    """Have the DataVolume there; False when it was. Raises KubeError."""
    try:
        session.client.request("POST", DataVolume.KIND.path(session.namespace), document)
    except AlreadyExists:
        return False
    return True


def lead_data_source(session: Session, name: str, claim: str) -> None:
    """Have a DataSource that leads to a claim of its namespace. Raises KubeError."""
    source = {"pvc": {"name": claim, "namespace": session.namespace}}
    document = {
        "apiVersion": DataSource.KIND.api_version,
        "kind": DataSource.KIND.kind,
        "metadata": {"name": name, "namespace": session.namespace},
        "spec": {"source": source},
    }
    try:
        session.client.request("POST", DataSource.KIND.path(session.namespace), document)
    except AlreadyExists:
        body = {"spec": {"source": {"snapshot": None, "dataSource": None, **source}}}
        session.client.request("PATCH", DataSource.KIND.path(session.namespace, name), body, None, _MERGE)
