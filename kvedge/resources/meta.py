"""Metadata, conditions and references that all kinds share (meta.k8s.io/v1).

Used by every type in this folder. Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind


class OwnerReference(KubeStruct, kw_only=True):
    """The owner of an object; it lives in the same namespace, or in none."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(KubeStruct, kw_only=True):
    """metav1.ObjectMeta; times are RFC 3339 text."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []

    def controller_reference(self) -> OwnerReference | None:
        """The one owner that controls this object, or None."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    @property
    def is_left(self) -> bool:
        """Whether the object is still there: one whose last finalizer went is gone, though the answer still has it."""
        return self.deletion_timestamp is None or bool(self.finalizers)


class BriefMeta(KubeStruct, kw_only=True):
    """Of an ObjectMeta what an informer reads: no annotations and labels, which may be 250 KB of each object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    owner_references: list[OwnerReference] = []

    def controller_reference(self) -> OwnerReference | None:
        """The one owner that controls this object, or None."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class _Owner(Protocol):
    KIND: ClassVar[Kind]
    metadata: ObjectMeta


def owner_reference(owner: _Owner) -> OwnerReference:
    """The reference by which an object belongs to its controller, whose deletion in Foreground waits for it."""
    return OwnerReference(
        api_version=owner.KIND.api_version,
        kind=owner.KIND.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


class Condition(KubeStruct, kw_only=True):
    """One condition; `status` is always "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class ObjectReference(KubeStruct, kw_only=True):
    """A reference to an object anywhere (core/v1 ObjectReference)."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    field_path: str = ""
    resource_version: str = ""


class LocalObjectReference(KubeStruct, kw_only=True):
    """A reference to an object in the same namespace."""

    name: str = ""


class LabelSelectorRequirement(KubeStruct, kw_only=True):
    """One expression of a label selector; `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(KubeStruct, kw_only=True):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []


def condition(conditions: list[Condition], type_: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((item for item in conditions if item.type == type_), None)


__all__ = [
    "Condition",
    "LabelSelector",
    "LabelSelectorRequirement",
    "LocalObjectReference",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "condition",
]
