"""What a delete request does to an object: gone at once, or marked and left for its finalizers and its kubelet.

Used by the write path. Pure.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.values.whole_numbers import INT64
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests.write_rules import moment_after, target_of, timestamp
from kvedge.standalone.apiserver.wire.api_errors import Conflict, FieldError, FieldErrorType, Invalid, Target

ORPHAN_FINALIZER: Final = "orphan"
FOREGROUND_FINALIZER: Final = "foregroundDeletion"
_POLICIES: Final = ("Background", "Foreground", "Orphan")
_DEFAULT_GRACE: Final = 30


class Outcome(StrEnum):
    """What is to be done with the object."""

    REMOVE = "remove"
    MARK = "mark"
    NOTHING = "nothing"


class DeleteOptions(Struct, frozen=True):
    """A metav1.DeleteOptions, checked. `grace` is None when the request names none; `policy` is "" likewise."""

    uid: str = ""
    resource_version: str = ""
    grace: int | None = None
    policy: str = ""
    dry_run: bool = False


def delete_options(body: JsonObject) -> DeleteOptions:
    """Read the options of a request.

    Raises:
        Invalid: with every cause.
    """
    errors = []
    policy, grace, dry_run = (
        body.get("propagationPolicy") or "",
        body.get("gracePeriodSeconds"),
        body.get("dryRun") or [],
    )
    if policy and policy not in _POLICIES:
        words = 'supported values: "Background", "Foreground", "Orphan"'
        errors.append(FieldError(FieldErrorType.NOT_SUPPORTED, "propagationPolicy", words, policy))
    orphan = body.get("orphanDependents")
    if policy and orphan is not None:
        words = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(FieldError(FieldErrorType.INVALID, "propagationPolicy", words, policy))
    if grace is not None and not _is_int64(grace):
        words = "must be an integer of 64 bits"
        errors.append(FieldError(FieldErrorType.TYPE_INVALID, "gracePeriodSeconds", words, grace))
    if dry_run not in ([], ["All"]):
        errors.append(FieldError(FieldErrorType.NOT_SUPPORTED, "dryRun", 'supported values: "All"', dry_run))
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict) or not all(isinstance(text, str | None) for text in preconditions.values()):
        words = "must be an object with uid and resourceVersion"
        errors.append(FieldError(FieldErrorType.TYPE_INVALID, "preconditions", words, preconditions))
    if errors:
        raise Invalid(Target("DeleteOptions", group="meta.k8s.io"), errors)
    if not policy and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        grace=grace,
        policy=policy,
        dry_run=bool(dry_run),
    )


def _is_int64(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and INT64[0] <= value <= INT64[1]


def check_preconditions(kind: ServedKind, obj: JsonObject, options: DeleteOptions) -> None:
    """Refuse to delete another object than the one that was meant.

    Raises:
        Conflict: the UID or resourceVersion differs.
    """
    metadata = obj["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        raise Conflict(
            target_of(kind, metadata["name"]),
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']})."
            " The object might have been deleted and then recreated",
        )
    if options.resource_version and options.resource_version != metadata["resourceVersion"]:
        raise Conflict(
            target_of(kind, metadata["name"]),
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion"
            f" in record ({metadata['resourceVersion']}). The object might have been modified",
        )


def plan_delete(kind: ServedKind, obj: JsonObject, options: DeleteOptions, now: datetime) -> Outcome:
    """Decide, and mark `obj` when it is to stay for a while."""
    metadata = obj["metadata"]
    before = (list(metadata.get("finalizers") or []), metadata.get("deletionTimestamp"), _read_grace(metadata))
    _set_policy_finalizers(metadata, options.policy)
    grace = _pod_grace(obj, options.grace) if kind.storage == "pods" else 0
    if metadata.get("deletionTimestamp"):
        # A second request may only shorten the wait.
        grace = min(grace, _read_grace(metadata)) if kind.storage == "pods" and options.grace is not None else before[2]
    if not metadata.get("finalizers") and not grace and not _has_namespace_content(kind, obj):
        if metadata.get("deletionTimestamp"):
            metadata["deletionGracePeriodSeconds"] = 0
        return Outcome.REMOVE
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = timestamp(moment_after(now, grace))
        if metadata.get("generation"):
            metadata["generation"] += 1
    elif grace < before[2]:
        metadata["deletionTimestamp"] = timestamp(moment_after(now, grace))
    metadata["deletionGracePeriodSeconds"] = grace
    if kind.storage == "namespaces":
        obj.setdefault("status", {})["phase"] = "Terminating"
    after = (list(metadata.get("finalizers") or []), metadata.get("deletionTimestamp"), grace)
    return Outcome.MARK if after != before else Outcome.NOTHING


def is_finished(kind: ServedKind, obj: JsonObject) -> bool:
    """True when a marked object has nothing left to wait for, so that the write that left it so removes it."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers") or _has_namespace_content(kind, obj):
        return False
    return not _read_grace(metadata)


def _has_namespace_content(kind: ServedKind, obj: JsonObject) -> bool:
    """A namespace stays until its content is gone, which `spec.finalizers` stands for."""
    return kind.storage == "namespaces" and bool((obj.get("spec") or {}).get("finalizers"))


def _read_grace(metadata: JsonObject) -> int:
    return int(metadata.get("deletionGracePeriodSeconds") or 0)


def _set_policy_finalizers(metadata: JsonObject, policy: str) -> None:
    if not policy:
        return
    wanted = {"Orphan": ORPHAN_FINALIZER, "Foreground": FOREGROUND_FINALIZER}.get(policy)
    finalizers = [
        name for name in metadata.get("finalizers") or [] if name not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)
    ]
    if wanted:
        finalizers.append(wanted)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _pod_grace(pod: JsonObject, asked: int | None) -> int:
    """How long the kubelet may take. A Pod that no kubelet has, or that has ended, is not waited for."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    grace = asked if asked is not None else int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE))
    if not spec.get("nodeName") or status.get("phase") in FINAL_POD_PHASES:
        return 0
    return 1 if grace < 0 else grace
