"""The copies of instance types and preferences that VMs keep as ControllerRevisions: later edits do not touch a VM.

Used by the controller, which makes them, and wherever a VM's types are read. Pure. Names, labels and contents are
KubeVirt's: tools that compare a VM with its type find the copies by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.instancetypes.matchers import IGNORE, PARTS, REJECT, Part, UnknownKind
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.vm import ControllerRevisionRef, InstancetypeStatusRef, Matcher
from kvedge.resources.types.vm_types.instancetypes import INSTANCETYPE_GROUP, INSTANCETYPE_VERSION

OBJECT_LABELS: Final = f"{INSTANCETYPE_GROUP}/object-"
_LATEST: Final = f"{INSTANCETYPE_GROUP}/{INSTANCETYPE_VERSION}"
# Versions before, whose objects have the same fields.
_OLDER: Final = (f"{INSTANCETYPE_GROUP}/v1alpha1", f"{INSTANCETYPE_GROUP}/v1alpha2")
_KINDS: Final = frozenset(kind.kind for part in PARTS for kind in (part.in_namespace, part.in_cluster))
# Users of the VM may read the copy: it has what a type is, and nothing else that may stand in the document.
_COPIED: Final = ("name", "namespace", "uid", "generation")


class BadRevision(ValueError):
    """A ControllerRevision holds no instance type or preference; the text says what is wrong."""


def revision_name(vm: str, metadata: Mapping[str, Any], version: str = INSTANCETYPE_VERSION) -> str:
    """The name of a VM's copy of an object with this metadata."""
    return f"{vm}-{metadata.get('name')}-{version}-{metadata.get('uid')}-{metadata.get('generation')}"


def revision_of(vm: str, namespace: str, owner: OwnerReference, document: JsonObject) -> ControllerRevision:
    """The copy of an object that a VM keeps; it goes with the VM, by its owner reference.

    Raises:
        BadRevision: when the object is no instance type and no preference.
    """
    if document.get("kind") not in _KINDS:
        raise BadRevision(f"no instance type and no preference: {document.get('kind')}")
    metadata = {key: document["metadata"][key] for key in _COPIED if key in document["metadata"]}
    labels = {
        "generation": str(metadata.get("generation")),
        "kind": str(document["kind"]),
        "name": str(metadata.get("name")),
        "uid": str(metadata.get("uid")),
        "version": INSTANCETYPE_VERSION,
    }
    return ControllerRevision(
        metadata=ObjectMeta(
            name=revision_name(vm, metadata),
            namespace=namespace,
            labels={f"{OBJECT_LABELS}{name}": value for name, value in labels.items()},
            owner_references=[owner],
        ),
        data={
            "apiVersion": _LATEST,
            "kind": document["kind"],
            "metadata": metadata,
            "spec": document.get("spec") or {},
        },
        revision=0,
    )


def is_current(revision: ControllerRevision) -> bool:
    """Whether the copy is in the version of today; copies that KubeVirt has made before may not be."""
    return revision.metadata.labels.get(f"{OBJECT_LABELS}version") == INSTANCETYPE_VERSION


def is_of(revision: ControllerRevision, part: Part, matcher: Matcher) -> bool:
    """Whether the copy is one of what a VM names now."""
    labels = revision.metadata.labels
    try:
        kind = part.kind_of(matcher).kind
    except UnknownKind:
        return False
    same_kind = labels.get(f"{OBJECT_LABELS}kind", kind).lower() == kind.lower()
    return labels.get(f"{OBJECT_LABELS}name") == matcher.name and same_kind


def object_in(part: Part, revision: ControllerRevision) -> JsonObject:
    """The object that a copy holds.

    Raises:
        BadRevision: when it holds something else.
    """
    data, name = revision.data, revision.metadata.name
    kinds = (part.in_namespace.kind, part.in_cluster.kind)
    if data.get("kind") not in kinds or data.get("apiVersion") not in (_LATEST, *_OLDER):
        found = f"{data.get('apiVersion')} {data.get('kind')}"
        raise BadRevision(f"ControllerRevision {name} holds no {part.words}: {found}")
    if not isinstance(data.get("metadata"), dict):
        raise BadRevision(f"ControllerRevision {name} holds an object without metadata")
    return data


def spec_of(part: Part, document: JsonObject) -> JsonObject:
    """The spec of an object, once it is sure that it can be applied.

    Raises:
        BadRevision: when its fields are of other types.
    """
    spec = document.get("spec") or {}
    try:
        decode(part.spec, spec)
    except DecodeError as error:
        name = (document.get("metadata") or {}).get("name")
        raise BadRevision(f"{document.get('kind')} {name}: spec.{error.path}: {error.detail}") from error
    return dict(spec)


def same_spec(one: JsonObject, other: JsonObject) -> bool:
    """Whether two copies say the same."""
    return bool((one.get("spec") or {}) == (other.get("spec") or {}))


def sync_ref(matcher: Matcher, old: InstancetypeStatusRef | None) -> InstancetypeStatusRef:
    """What a VM's status says of its matcher; without a ControllerRevision when a copy is still to be made."""
    ref = old or InstancetypeStatusRef()
    pairs = (
        ("name", matcher.name),
        ("kind", matcher.kind),
        ("infer_from_volume", matcher.infer_from_volume),
    )
    changed: dict[str, Any] = {name: value for name, value in pairs if value and value != getattr(ref, name)}
    if changed:
        changed["controller_revision_ref"] = None
    if matcher.infer_from_volume_failure_policy in (IGNORE, REJECT):
        changed["infer_from_volume_failure_policy"] = matcher.infer_from_volume_failure_policy
    if matcher.revision_name:
        changed["controller_revision_ref"] = ControllerRevisionRef(name=matcher.revision_name)
    return msgspec.structs.replace(ref, **changed)


def named_revision(matcher: Matcher, ref: InstancetypeStatusRef | None) -> str:
    """The name of the copy that a VM uses, as far as it has one; the spec wins over the status."""
    if matcher.revision_name:
        return matcher.revision_name
    return ref.controller_revision_ref.name if ref is not None and ref.controller_revision_ref is not None else ""
