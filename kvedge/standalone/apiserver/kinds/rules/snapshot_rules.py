"""What snapshots of claims, their contents and their classes may say, and what of them may change.

Called by the rows of these kinds. Pure; the objects have the types of their kinds (`builtin_shape`). The words are
those that the external-snapshotter's definitions have the API server say. All causes at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import invalid, not_supported_error, required_error

_POLICIES: Final = ("Delete", "Retain")
_OF_CLAIM: Final = "persistentVolumeClaimName"
_OF_CONTENT: Final = "volumeSnapshotContentName"
_OF_VOLUME: Final = "volumeHandle"
_OF_HANDLE: Final = "snapshotHandle"
# As a CRD's rule in CEL has it: the value that does not fit is an object or a text, whatever is in it.
_OBJECT: Final = "object"
_TEXT: Final = "string"


def check_snapshot(snapshot: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a VolumeSnapshot."""
    spec = snapshot.get("spec")
    if spec is None:
        yield required_error("spec")
        return
    yield from _check_source(spec, _OF_CONTENT, _OF_CLAIM)
    if spec.get("volumeSnapshotClassName") == "":
        text = "volumeSnapshotClassName must not be the empty string when set"
        yield invalid("spec.volumeSnapshotClassName", _TEXT, text)


def check_snapshot_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A snapshot keeps its source."""
    yield from _check_kept_source(new, old, _OF_CLAIM, _OF_CONTENT)


def check_content(content: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a VolumeSnapshotContent."""
    spec = content.get("spec")
    if spec is None:
        yield required_error("spec")
        return
    yield from _check_policy(spec.get("deletionPolicy"), "spec.deletionPolicy")
    if "driver" not in spec:
        yield required_error("spec.driver")
    yield from _check_source(spec, _OF_VOLUME, _OF_HANDLE)
    reference = spec.get("volumeSnapshotRef")
    if reference is None:
        yield required_error("spec.volumeSnapshotRef")
    elif "name" not in reference or "namespace" not in reference:
        text = "both spec.volumeSnapshotRef.name and spec.volumeSnapshotRef.namespace must be set"
        yield invalid("spec.volumeSnapshotRef", _OBJECT, text)


def check_content_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A content keeps its source, and the mode of the volume that it is of."""
    yield from _check_kept_source(new, old, _OF_VOLUME, _OF_HANDLE)
    after, before = new.get("spec") or {}, old.get("spec") or {}
    yield from _check_kept(after, before, "sourceVolumeMode", "spec")


def check_class(snapshot_class: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a VolumeSnapshotClass."""
    yield from _check_policy(snapshot_class.get("deletionPolicy"), "deletionPolicy")
    if "driver" not in snapshot_class:
        yield required_error("driver")


def _check_source(spec: JsonObject, first: str, second: str) -> Iterator[FieldError]:
    source = spec.get("source")
    if source is None:
        yield required_error("spec.source")
    elif (first in source) == (second in source):
        yield invalid("spec.source", _OBJECT, f"exactly one of {first} and {second} must be set")


def _check_kept_source(new: JsonObject, old: JsonObject, *fields: str) -> Iterator[FieldError]:
    after, before = ((each.get("spec") or {}).get("source") or {} for each in (new, old))
    for field in fields:
        yield from _check_kept(after, before, field, "spec.source")


def _check_kept(after: JsonObject, before: JsonObject, field: str, path: str) -> Iterator[FieldError]:
    """What is wrong when a field that may be given once goes or changes."""
    if field not in before:
        return
    if field not in after:
        yield invalid(path, _OBJECT, f"{field} is required once set")
    elif after[field] != before[field]:
        yield invalid(f"{path}.{field}", _TEXT, f"{field} is immutable")


def _check_policy(policy: str | None, path: str) -> Iterator[FieldError]:
    if policy is None:
        yield required_error(path)
    elif policy not in _POLICIES:
        yield not_supported_error(path, policy, _POLICIES)
