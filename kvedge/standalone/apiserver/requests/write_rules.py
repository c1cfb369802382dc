"""What the server itself puts into an object that is written, and what a writer may not change.

Used by the write path for every kind, before validation. Pure: the clock and random values come in as arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, cast

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.built_in import find_built_in
from kvedge.standalone.apiserver.kinds.rules.pod_resize_rules import take_resources
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.wire.api_errors import (
    ApiError,
    BadRequest,
    Conflict,
    FieldError,
    FieldErrorType,
    Invalid,
    Target,
)
from kvedge.standalone.apiserver.wire.json_values import clone, type_word

_MAX_GENERATED: Final = 58
# The years 1 and 9999, a day from where Python's own calendar ends, so that any time zone still shows them.
_FIRST: Final = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LAST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


class Stamp(Struct, frozen=True):
    """The facts that a new object gets: `now` for its timestamps, `uid`, and five `random` letters for a generated
    name.
    """

    now: datetime
    uid: str
    random: str


def timestamp(moment: datetime) -> str:
    """A metav1.Time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_after(now: datetime, seconds: int) -> datetime:
    """A moment so many seconds later, or earlier; the last or the first that a metav1.Time can name, when beyond it."""
    try:
        return now + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def parse_timestamp(text: str) -> datetime:
    """The moment that a metav1.Time or MicroTime names.

    Raises:
        ValueError: it is no time.
    """
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def target_of(kind: ServedKind, name: str) -> Target:
    """What errors about an object of this kind name."""
    return Target(kind.plural, name, kind.group)


def invalid(kind: ServedKind, name: str, errors: list[FieldError]) -> Invalid:
    """The refusal of an object for these reasons."""
    return Invalid(Target(kind.kind, name, kind.group), errors)


def check_metadata(kind: ServedKind, obj: JsonObject) -> None:
    """Make sure that there is metadata to look at, also when a patch has taken it away or made something else of it.

    Raises:
        BadRequest: it is no object.
    """
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    if not isinstance(obj["metadata"], dict):
        what = f"{type_word(obj['metadata'])} into Go struct field {kind.kind}.metadata of type v1.ObjectMeta"
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: cannot unmarshal {what}'
        )


def check_identity(kind: ServedKind, obj: JsonObject, namespace: str, name: str = "") -> None:
    """Make sure that a body is what its URL says, and give it what the URL says and it left out.

    Raises:
        BadRequest, Invalid: kind, apiVersion, namespace or name contradict the URL, or metadata is no object.
    """
    _check_kind(kind, obj)
    metadata = obj.get("metadata", {})
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata: Invalid value: must be an object")
    # As Kubernetes has it, objects of the cluster lose a namespace that they came with.
    if namespace and metadata.get("namespace") not in (None, "", namespace):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    if name and metadata.get("name") not in (None, "", name):
        raise BadRequest(f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({name})")
    if name:
        metadata["name"] = name
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    obj.clear()
    obj.update({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest})


def check_version_named(kind: ServedKind, obj: JsonObject) -> None:
    """Custom resources are only replaced by somebody who says which version they read.

    Raises:
        Invalid: they do not.
    """
    metadata = obj["metadata"]
    if kind.crd is not None and not metadata.get("resourceVersion"):
        error = FieldError(FieldErrorType.INVALID, "metadata.resourceVersion", "must be specified for an update", 0)
        # Unlike all other invalid objects this one is named by its resource, as the real server does.
        raise Invalid(target_of(kind, metadata["name"]), [error])


def _check_kind(kind: ServedKind, obj: JsonObject) -> None:
    api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    if not name and kind.crd is not None:
        raise BadRequest("Object 'Kind' is missing in the request body")
    if name and name != kind.kind and kind.crd is not None:
        error = FieldError(FieldErrorType.INVALID, "kind", f"must be {kind.kind}", name)
        metadata = obj.get("metadata")
        shown = metadata.get("name") if isinstance(metadata, dict) else ""
        raise Invalid(Target(name, str(shown or ""), kind.group), [error])
    if name and name != kind.kind:
        version = str(api_version).rpartition("/")[2]
        raise BadRequest(f'{name} in version "{version}" cannot be handled as a {kind.kind}: another kind was expected')
    if api_version and api_version != kind.api_version:
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})"
        )


def prepare_create(kind: ServedKind, obj: JsonObject, stamp: Stamp) -> None:
    """Give a new object what only the server may give."""
    metadata = obj["metadata"]
    if not metadata.get("name"):
        if not metadata.get("generateName"):
            error = FieldError(FieldErrorType.REQUIRED, "metadata.name", "name or generateName is required")
            raise invalid(kind, "", [error])
        metadata["name"] = metadata["generateName"][:_MAX_GENERATED] + stamp.random
    for unwanted in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        metadata.pop(unwanted, None)
    metadata["uid"] = stamp.uid
    metadata["creationTimestamp"] = timestamp(stamp.now)
    if kind.counts_generation:
        metadata["generation"] = 1
    row = find_built_in(kind.storage)
    if kind.has_status and not (row is not None and row.status_on_create):
        obj.pop("status", None)


def check_unversioned(obj: JsonObject) -> None:
    """Refuse a new object that names a version, as the real server's store does: after all that admission says.

    Raises:
        ApiError: it names one.
    """
    if obj["metadata"].pop("resourceVersion", None) not in (None, "", "0"):
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")


def prepare_update(kind: ServedKind, live: JsonObject, obj: JsonObject) -> None:
    """Keep what an update of the main resource may not change, and count the generation.

    Raises:
        Conflict: the body names another UID than the stored object has.
    """
    old, new = live["metadata"], obj["metadata"]
    _check_uid(kind, old, new)
    new.pop("selfLink", None)
    for kept in ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
        _keep(old, new, kept)
    if kind.has_status:
        _keep(live, obj, "status")
    if kind.storage == "namespaces":
        # The finalizers of a namespace's spec are changed through its finalize subresource only.
        _keep(live.get("spec") or {}, obj.setdefault("spec", {}), "finalizers")
    row = find_built_in(kind.storage)
    if row is not None and row.keeps is not None:
        row.keeps(obj, live)
    if kind.counts_generation and _content(kind, live) != _content(kind, obj):
        new["generation"] = old.get("generation", 0) + 1


def prepare_finalize(live: JsonObject, obj: JsonObject) -> None:
    """Make of an update of a namespace's finalize subresource one that changes `spec.finalizers` alone."""
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    kept = cast(JsonObject, clone(live))
    kept.setdefault("spec", {})["finalizers"] = finalizers
    obj.clear()
    obj.update(kept)


def prepare_resize(kind: ServedKind, live: JsonObject, obj: JsonObject) -> None:
    """Make of an update of a Pod's resize subresource one that changes its containers' resources alone."""
    _check_uid(kind, live["metadata"], obj["metadata"])
    given, kept = obj["metadata"], cast(JsonObject, clone(live))
    take_resources(kept["spec"], obj.get("spec") or {})
    for name in ("managedFields", "resourceVersion"):
        _keep(given, kept["metadata"], name)
    if kept["spec"] != live["spec"]:
        kept["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
    obj.clear()
    obj.update(kept)


def prepare_status_update(kind: ServedKind, live: JsonObject, obj: JsonObject) -> None:
    """Make of an update of the status subresource one that changes the status alone (`obj` is altered)."""
    _check_uid(kind, live["metadata"], obj["metadata"])
    status, given = obj.get("status"), obj["metadata"]
    kept = cast(JsonObject, clone(live))
    row = find_built_in(kind.storage)
    if row is not None and row.metadata_with_status:
        for name in ("labels", "annotations"):
            _keep(given, kept["metadata"], name)
    _keep(given, kept["metadata"], "managedFields")
    _keep(given, kept["metadata"], "resourceVersion")
    if status is None:
        kept.pop("status", None)
    else:
        kept["status"] = status
    obj.clear()
    obj.update(kept)


def same_object(live: JsonObject, obj: JsonObject) -> bool:
    """True when a write would change nothing but the time of its own managedFields entry."""
    return _comparable(live) == _comparable(obj)


def _comparable(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    entries = metadata.get("managedFields") or []
    metadata["managedFields"] = [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
    return {**obj, "metadata": metadata}


def _content(kind: ServedKind, obj: JsonObject) -> JsonObject:
    hidden = {"metadata", "status"} if kind.has_status else {"metadata"}
    return {key: value for key, value in obj.items() if key not in hidden}


def _check_uid(kind: ServedKind, old: JsonObject, new: JsonObject) -> None:
    if new.get("uid") not in (None, "", old["uid"]):
        raise Conflict(
            target_of(kind, old["name"]),
            f"Precondition failed: UID in precondition: {new['uid']}, UID in object meta: {old['uid']}",
        )


def _keep(source: JsonObject, target: JsonObject, field: str) -> None:
    """Make `field` of `target` what it is in `source`, absence included."""
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)
