"""The status of a CustomResourceDefinition: which names it was given, whether it is served, which versions are stored.

The server computes it with every write of a CRD, so a CRD is served as soon as its creation is answered. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"


def set_crd_status(crd: JsonObject, served: Iterable[ServedKind], now: str) -> None:
    """Set `status` of a CRD that passed validation; `served` are the kinds served now, its own included."""
    spec, status = crd.get("spec") or {}, dict(crd.get("status") or {})
    name = crd["metadata"]["name"]
    others = [kind for kind in served if kind.group == spec.get("group") and not _is_of(kind, name)]
    problem = _name_problem(spec.get("names") or {}, others)
    if not problem:
        status["acceptedNames"] = spec.get("names") or {}
    else:
        status.setdefault("acceptedNames", {"kind": "", "plural": ""})
    stored = [version.get("name") or "" for version in spec.get("versions") or () if version.get("storage")]
    known = status.get("storedVersions") or []
    status["storedVersions"] = [*known, *(version for version in stored if version not in known)]
    established = not problem or _has(status, "Established")
    conditions = [
        _condition(
            status, "NamesAccepted", not problem, "NoConflicts" if not problem else "NameConflict", problem, now
        ),
        _condition(
            status, "Established", established, "InitialNamesAccepted" if established else "NotAccepted", "", now
        ),
    ]
    own = {condition["type"] for condition in conditions}
    kept = [condition for condition in status.get("conditions") or [] if condition["type"] not in own]
    crd["status"] = {**status, "conditions": [*conditions, *kept]}


def set_terminating(crd: JsonObject, now: str) -> None:
    """Say that the custom resources of a CRD are being deleted."""
    status = crd.setdefault("status", {})
    condition = _condition(
        status, "Terminating", True, "InstanceDeletionInProgress", "CustomResource deletion is in progress", now
    )
    rest = [item for item in status.get("conditions") or [] if item["type"] != "Terminating"]
    status["conditions"] = [*rest, condition]


def _is_of(kind: ServedKind, name: str) -> bool:
    """Whether a kind is a CRD's own; that of a kind that is built in describes just that."""
    return kind.qualified == name if kind.crd is None else kind.crd["metadata"]["name"] == name


def _name_problem(names: JsonObject, others: list[ServedKind]) -> str:
    taken = {word for kind in others for word in (kind.plural, kind.singular, *kind.short_names) if word}
    # A name that lacks is refused by the rules, which come later.
    kind = names.get("kind") or ""
    for word in (names.get("plural"), names.get("singular") or kind.lower(), *(names.get("shortNames") or ())):
        if word in taken:
            return f'"{word}" is already in use'
    kinds = {name for kind in others for name in (kind.kind, kind.list_name)}
    for word in (kind, names.get("listKind") or f"{kind}List"):
        if word in kinds:
            return f'"{word}" is already in use'
    return ""


def _has(status: JsonObject, kind: str) -> bool:
    return any(item["type"] == kind and item["status"] == "True" for item in status.get("conditions") or [])


def _condition(status: JsonObject, kind: str, holds: bool, reason: str, message: str, now: str) -> JsonObject:
    words = {
        "NamesAccepted": "no conflicts found",
        "Established": "the initial names have been accepted" if holds else "not all names are accepted",
    }
    value = "True" if holds else "False"
    before = next((item for item in status.get("conditions") or [] if item["type"] == kind), None)
    since = before["lastTransitionTime"] if before and before["status"] == value else now
    return {
        "type": kind,
        "status": value,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message or words.get(kind, ""),
    }
