"""What the metadata of any object may say, on create and on update, and what an object embedded in another must say.

Called by object_rules, the server (for custom resources) and structural_schema. Pure. All causes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver import name_rules
from kvedge.standalone.apiserver.api_errors import FieldError, FieldErrorType
from kvedge.standalone.apiserver.json_values import same
from kvedge.standalone.apiserver.selectors import check_labels

NameRule = Callable[[str], list[str]]

ANNOTATIONS_LIMIT: Final = 256 * 1024
_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
# Nothing may change these once an object exists; the server fills them from what is stored before it asks.
_IMMUTABLE: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def check_metadata(metadata: JsonObject, namespaced: bool, name_rule: NameRule) -> list[FieldError]:
    """Everything wrong with the metadata of a new object, whose name has already been generated where one was asked
    for.
    """
    errors: list[FieldError] = []
    prefix = metadata.get("generateName") or ""
    if prefix:
        masked = prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        errors += _invalid("metadata.generateName", prefix, name_rule(masked))
    name = metadata.get("name") or ""
    if name:
        errors += _invalid("metadata.name", name, name_rule(name))
    else:
        errors.append(FieldError(FieldErrorType.REQUIRED, "metadata.name", "name or generateName is required"))
    return errors + _check_namespace(metadata.get("namespace") or "", namespaced) + check_common(metadata)


def check_metadata_update(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Everything wrong with the metadata of an object that replaces the `old` one."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
        if extra:
            shown = ", ".join(f'"{name}"' for name in extra)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.append(FieldError(FieldErrorType.FORBIDDEN, "metadata.finalizers", f"{text}[]string{{{shown}}}"))
    if not new.get("resourceVersion"):
        text = "must be specified for an update"
        errors.append(FieldError(FieldErrorType.INVALID, "metadata.resourceVersion", text, ""))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        text = "must not be decremented"
        errors.append(FieldError(FieldErrorType.INVALID, "metadata.generation", text, new.get("generation") or 0))
    for key in _IMMUTABLE:
        errors += check_immutable(new.get(key), old.get(key), f"metadata.{key}")
    return errors + check_common(new)


def check_common(metadata: JsonObject, path: str = "metadata") -> list[FieldError]:
    """What holds for new and changed metadata alike: labels, annotations, owners, finalizers, field managers."""
    errors = check_labels(metadata.get("labels"), f"{path}.labels")
    errors += _check_annotations(metadata.get("annotations") or {}, f"{path}.annotations")
    errors += _check_owners(metadata.get("ownerReferences") or [], f"{path}.ownerReferences")
    errors += _check_finalizers(metadata.get("finalizers") or [], f"{path}.finalizers")
    return errors + _check_managers(metadata.get("managedFields") or [], f"{path}.managedFields")


def check_embedded_object(document: JsonObject, path: str) -> list[FieldError]:
    """What an object inside another (x-kubernetes-embedded-resource) must have: apiVersion, kind, sound metadata."""
    errors = []
    for key in ("apiVersion", "kind"):
        value = document.get(key)
        where = f"{path}.{key}" if path else key
        if key not in document:
            errors.append(FieldError(FieldErrorType.REQUIRED, where))
        elif not isinstance(value, str):
            errors.append(FieldError(FieldErrorType.INVALID, where, "must be a string", value))
        elif not value:
            errors.append(FieldError(FieldErrorType.INVALID, where, "must not be empty", value))
        elif key == "kind" and (complaints := name_rules.dns1035_label(value.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(complaints)
            errors.append(FieldError(FieldErrorType.INVALID, where, text, value))
        elif key == "apiVersion" and value.count("/") > 1:
            errors.append(FieldError(FieldErrorType.INVALID, where, f"unexpected GroupVersion string: {value}", value))
    metadata = document.get("metadata")
    where = f"{path}.metadata" if path else "metadata"
    if isinstance(metadata, dict):
        errors += check_common(metadata, where)
    elif metadata is not None:
        errors.append(FieldError(FieldErrorType.INVALID, where, "must be an object", metadata))
    return errors


def check_immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    """The complaint about a field that may not change and did; absent and null are the same."""
    return [] if same(new, old) else [FieldError(FieldErrorType.INVALID, path, "field is immutable", new)]


def _check_namespace(namespace: str, namespaced: bool) -> list[FieldError]:
    path = "metadata.namespace"
    if not namespaced:
        return [FieldError(FieldErrorType.FORBIDDEN, path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [FieldError(FieldErrorType.REQUIRED, path)]
    return _invalid(path, namespace, name_rules.dns_label(namespace))


def _check_annotations(annotations: JsonObject, path: str) -> list[FieldError]:
    errors = []
    for key in annotations:
        # The rule of label keys, except that case does not matter.
        errors += _invalid(path, key, name_rules.label_key(key.lower()))
    if sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        errors.append(FieldError(FieldErrorType.TOO_LONG, path, f"may not be more than {ANNOTATIONS_LIMIT} bytes"))
    return errors


def _check_owners(owners: list[JsonObject], path: str) -> list[FieldError]:
    errors = []
    for index, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                errors.append(FieldError(FieldErrorType.REQUIRED, f"{path}[{index}].{key}", "must not be empty"))
        if str(owner.get("apiVersion", "")).count("/") > 1:
            text = "must be <group>/<version> or <version>"
            errors.append(FieldError(FieldErrorType.INVALID, f"{path}[{index}].apiVersion", text, owner["apiVersion"]))
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            text = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(FieldError(FieldErrorType.INVALID, f"{path}[{index}]", text, owner))
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")]
    for another in controllers[1:]:
        text = 'Only one reference can have Controller set to true. Found "true" in references for '
        errors.append(FieldError(FieldErrorType.INVALID, path, f"{text}{controllers[0]} and {another}", owners))
    return errors


def _check_finalizers(finalizers: list[str], path: str) -> list[FieldError]:
    errors = [error for name in finalizers for error in _invalid(path, name, name_rules.label_key(name))]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        text = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        errors.append(FieldError(FieldErrorType.INVALID, path, text, finalizers))
    return errors


def _check_managers(entries: list[JsonObject], path: str) -> list[FieldError]:
    errors = []
    for index, entry in enumerate(entries):
        operation = entry.get("operation")
        if not operation:
            errors.append(FieldError(FieldErrorType.REQUIRED, f"{path}[{index}].operation", "must not be empty"))
        elif operation not in {"Apply", "Update"}:
            text = 'supported values: "Apply", "Update"'
            errors.append(FieldError(FieldErrorType.NOT_SUPPORTED, f"{path}[{index}].operation", text, operation))
        kind = entry.get("fieldsType")
        if kind and kind != "FieldsV1":
            errors.append(FieldError(FieldErrorType.INVALID, f"{path}[{index}].fieldsType", "must be `FieldsV1`", kind))
    return errors


def _invalid(path: str, value: str, complaints: list[str]) -> list[FieldError]:
    return [FieldError(FieldErrorType.INVALID, path, text, value) for text in complaints]
