"""The kinds that storage drivers bring for their snapshots, and a driver that a test plays.

One box has the kinds itself. The schema that a cluster gets is wider than the external-snapshotter's own, which has
`status` as a subresource as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotClass
from tests.support.waiting import wait_until

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_APPROVED: Final = "https://github.com/kubernetes-csi/external-snapshotter/pull/814"
_ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@contextlib.contextmanager
def volume_snapshot_kinds(admin: KubeClient) -> Iterator[None]:
    """The server has the kinds."""
    if all(_is_served(admin, each) for each in (VolumeSnapshot, VolumeSnapshotClass)):
        yield
        return
    documents = [
        _definition("VolumeSnapshot", "Namespaced", {"spec": _ANY, "status": _ANY}),
        _definition(
            "VolumeSnapshotClass", "Cluster", {"driver": {"type": "string"}, "deletionPolicy": {"type": "string"}}
        ),
    ]
    for document in documents:
        admin.request("POST", _CRDS, document)
    wait_until(
        lambda: all(_is_served(admin, each) for each in (VolumeSnapshot, VolumeSnapshotClass)), "they are served"
    )
    yield
    for document in documents:
        admin.request("DELETE", f"{_CRDS}/{document['metadata']['name']}")


def tell(admin: KubeClient, item: VolumeSnapshot, **status: Any) -> None:
    """The driver says how far it is."""
    body = MergePatch({"status": status})
    admin.patch(VolumeSnapshot, item.metadata.namespace, item.metadata.name, body, "status")


def _definition(kind: str, scope: str, properties: dict[str, Any]) -> dict[str, Any]:
    plural = "volumesnapshotclasses" if kind.endswith("Class") else "volumesnapshots"
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True, "schema": schema}
    if scope == "Namespaced":
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # The group is one of Kubernetes' own, for which a server asks.
        "metadata": {
            "name": f"{plural}.snapshot.storage.k8s.io",
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/814"
            },
        },
        "spec": {
            "group": "snapshot.storage.k8s.io",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": scope,
            "versions": [version],
        },
    }


def _is_served(admin: KubeClient, cls: type[VolumeSnapshot] | type[VolumeSnapshotClass]) -> bool:
    try:
        admin.list(cls)
    except KubeError:
        return False
    return True
