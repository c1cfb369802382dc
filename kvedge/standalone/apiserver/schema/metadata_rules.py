"""What the metadata of any object may say, on create and on update, and what an object embedded in another must say.

Called by object_checks and structural_schema. Pure. Rules yield their causes, so that whoever has enough of them stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.schema.selectors import check_labels
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError, FieldErrorType, first_errors
from kvedge.standalone.apiserver.wire.json_values import same
from kvedge.standalone.apiserver.wire.told import LONGEST_VALUE, MOST_TOLD, child, cut

NameRule = Callable[[str], list[str]]

ANNOTATIONS_LIMIT: Final = 256 * 1024
_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
# Nothing may change these once an object exists; the server fills them from what is stored before it asks.
_IMMUTABLE: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def check_metadata(metadata: JsonObject, namespaced: bool, name_rule: NameRule) -> list[FieldError]:
    """What is wrong with the metadata of a new object, whose name has already been generated where one was asked
    for.
    """
    return first_errors(chain(_naming_errors(metadata, namespaced, name_rule), check_common(metadata)))


def check_metadata_update(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """What is wrong with the metadata of an object that replaces the `old` one."""
    return first_errors(chain(_change_errors(new, old), check_common(new)))


def check_common(metadata: JsonObject, path: str = "metadata") -> Iterator[FieldError]:
    """What holds for new and changed metadata alike: labels, annotations, owners, finalizers, field managers."""
    yield from check_labels(metadata.get("labels"), f"{path}.labels")
    yield from _check_annotations(metadata.get("annotations") or {}, f"{path}.annotations")
    yield from _check_owners(metadata.get("ownerReferences") or [], f"{path}.ownerReferences")
    yield from _check_finalizers(metadata.get("finalizers") or [], f"{path}.finalizers")
    yield from _check_managers(metadata.get("managedFields") or [], f"{path}.managedFields")


def check_embedded_object(document: JsonObject, path: str) -> Iterator[FieldError]:
    """What an object inside another (x-kubernetes-embedded-resource) must have: apiVersion, kind, sound metadata."""
    for key in ("apiVersion", "kind"):
        value = document.get(key)
        where = child(path, key)
        if key not in document:
            yield FieldError(FieldErrorType.REQUIRED, where)
        elif not isinstance(value, str):
            yield FieldError(FieldErrorType.INVALID, where, "must be a string", value)
        elif not value:
            yield FieldError(FieldErrorType.INVALID, where, "must not be empty", value)
        elif key == "kind" and (complaints := name_rules.dns1035_label(value.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(complaints)
            yield FieldError(FieldErrorType.INVALID, where, text, value)
        elif key == "apiVersion" and value.count("/") > 1:
            yield FieldError(FieldErrorType.INVALID, where, f"unexpected GroupVersion string: {cut(value)}", value)
    metadata = document.get("metadata")
    where = child(path, "metadata")
    if isinstance(metadata, dict):
        yield from check_common(metadata, where)
    elif metadata is not None:
        yield FieldError(FieldErrorType.INVALID, where, "must be an object", metadata)


def check_immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    """The complaint about a field that may not change and did; absent and null are the same."""
    return [] if same(new, old) else [FieldError(FieldErrorType.INVALID, path, "field is immutable", new)]


def _naming_errors(metadata: JsonObject, namespaced: bool, name_rule: NameRule) -> Iterator[FieldError]:
    prefix = metadata.get("generateName") or ""
    if prefix:
        masked = prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from _invalid("metadata.generateName", prefix, name_rule(masked))
    name = metadata.get("name") or ""
    if name:
        yield from _invalid("metadata.name", name, name_rule(name))
    else:
        yield FieldError(FieldErrorType.REQUIRED, "metadata.name", "name or generateName is required")
    yield from _check_namespace(metadata.get("namespace") or "", namespaced)


def _change_errors(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
        if extra:
            listed = ", ".join(f'"{cut(name, LONGEST_VALUE)}"' for name in extra[:MOST_TOLD])
            text = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield FieldError(FieldErrorType.FORBIDDEN, "metadata.finalizers", f"{text}[]string{{{listed}}}")
    if not new.get("resourceVersion"):
        text = "must be specified for an update"
        yield FieldError(FieldErrorType.INVALID, "metadata.resourceVersion", text, "")
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        text = "must not be decremented"
        yield FieldError(FieldErrorType.INVALID, "metadata.generation", text, new.get("generation") or 0)
    for key in _IMMUTABLE:
        yield from check_immutable(new.get(key), old.get(key), f"metadata.{key}")


def _check_namespace(namespace: str, namespaced: bool) -> Iterator[FieldError]:
    path = "metadata.namespace"
    if not namespaced:
        if namespace:
            yield FieldError(FieldErrorType.FORBIDDEN, path, "not allowed on this type")
    elif not namespace:
        yield FieldError(FieldErrorType.REQUIRED, path)
    else:
        yield from _invalid(path, namespace, name_rules.dns_label(namespace))


def _check_annotations(annotations: JsonObject, path: str) -> Iterator[FieldError]:
    for key in annotations:
        # The rule of label keys, except that case does not matter.
        yield from _invalid(path, key, name_rules.label_key(key.lower()))
    if sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        yield FieldError(FieldErrorType.TOO_LONG, path, f"may not be more than {ANNOTATIONS_LIMIT} bytes")


def _check_owners(owners: list[JsonObject], path: str) -> Iterator[FieldError]:
    for index, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield FieldError(FieldErrorType.REQUIRED, f"{path}[{index}].{key}", "must not be empty")
        if str(owner.get("apiVersion", "")).count("/") > 1:
            text = "must be <group>/<version> or <version>"
            yield FieldError(FieldErrorType.INVALID, f"{path}[{index}].apiVersion", text, owner["apiVersion"])
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            text = "/v1, Kind=Event is disallowed from being an owner"
            yield FieldError(FieldErrorType.INVALID, f"{path}[{index}]", text, owner)
    controllers = [owner for owner in owners if owner.get("controller")]
    for another in controllers[1:]:
        text = 'Only one reference can have Controller set to true. Found "true" in references for '
        both = f"{_owner_words(controllers[0])} and {_owner_words(another)}"
        yield FieldError(FieldErrorType.INVALID, path, text + both, owners)


def _owner_words(owner: JsonObject) -> str:
    return cut(f"{owner.get('kind')}/{owner.get('name')}", LONGEST_VALUE)


def _check_finalizers(finalizers: list[str], path: str) -> Iterator[FieldError]:
    for name in finalizers:
        yield from _invalid(path, name, name_rules.label_key(name))
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        text = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        yield FieldError(FieldErrorType.INVALID, path, text, finalizers)


def _check_managers(entries: list[JsonObject], path: str) -> Iterator[FieldError]:
    for index, entry in enumerate(entries):
        operation = entry.get("operation")
        if not operation:
            yield FieldError(FieldErrorType.REQUIRED, f"{path}[{index}].operation", "must not be empty")
        elif operation not in {"Apply", "Update"}:
            text = 'supported values: "Apply", "Update"'
            yield FieldError(FieldErrorType.NOT_SUPPORTED, f"{path}[{index}].operation", text, operation)
        kind = entry.get("fieldsType")
        if kind and kind != "FieldsV1":
            yield FieldError(FieldErrorType.INVALID, f"{path}[{index}].fieldsType", "must be `FieldsV1`", kind)


def _invalid(path: str, value: str, complaints: Iterable[str]) -> Iterator[FieldError]:
    return (FieldError(FieldErrorType.INVALID, path, text, value) for text in complaints)
