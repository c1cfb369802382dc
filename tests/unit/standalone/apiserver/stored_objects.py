"""Stored objects and changes for tests, as the store would make them."""

from __future__ import annotations

from typing import Any

import msgspec

from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored


def stored(name: str, revision: int = 1, resource: str = "widgets", namespace: str = "n", **parts: Any) -> Stored:
    """An object at a revision; `metadata` is completed."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": str(revision),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **parts.pop("metadata", {}),
    }
    body = {"apiVersion": "v1", "kind": "Widget", "metadata": metadata, **parts}
    return Stored(ObjectKey(resource, namespace, name), revision, msgspec.json.encode(body))


def added(current: Stored) -> Change:
    """Its creation."""
    return Change(ChangeType.ADDED, current, None)


def modified(current: Stored, previous: Stored) -> Change:
    """Its change."""
    return Change(ChangeType.MODIFIED, current, previous)


def deleted(current: Stored, previous: Stored) -> Change:
    """Its end; `current` is its last state at the revision of the deletion."""
    return Change(ChangeType.DELETED, current, previous)
