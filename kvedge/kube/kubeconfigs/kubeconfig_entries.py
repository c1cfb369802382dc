"""The two entries of a kubeconfig that count: the cluster and the user of its current context.

Called by `connection_settings`. Pure: looks at the document, not at the files that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class KubeconfigFault(Exception):
    """A kubeconfig does not hold together; the text says where, without the file's name."""


def current_entries(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Cluster and user of the current context; a context without a user stands for nobody.

    Raises:
        KubeconfigFault: when one of them is missing, is there twice, or is no entry at all.
    """
    context = _entry(document, "context", text_of(document, "current-context"))
    cluster = _entry(document, "cluster", text_of(context, "cluster"))
    user = text_of(context, "user")
    return cluster, _entry(document, "user", user) if user else {}


def text_of(values: Mapping[str, Any], key: str) -> str:
    """A text of an entry, empty when it is not there.

    Raises:
        KubeconfigFault: when it is something else.
    """
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise KubeconfigFault(f"{key} is not a text")
    return value or ""


def map_of(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A map of an entry, empty when it is not there.

    Raises:
        KubeconfigFault: when it is something else.
    """
    value = values.get(key)
    if value is not None and not isinstance(value, dict):
        raise KubeconfigFault(f"{key} is not a map")
    return value or {}


def list_of(values: Mapping[str, Any], key: str) -> list[Any]:
    """A list of an entry, empty when it is not there.

    Raises:
        KubeconfigFault: when it is something else.
    """
    value = values.get(key)
    if value is not None and not isinstance(value, list):
        raise KubeconfigFault(f"{key} is not a list")
    return value or []


def _entry(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    if not name:
        raise KubeconfigFault("it has no current-context" if kind == "context" else f"its context names no {kind}")
    entries = list_of(document, f"{kind}s")
    found = [entry for entry in entries if isinstance(entry, dict) and entry.get("name") == name]
    if len(found) != 1:
        raise KubeconfigFault(f'{"two" if found else "no"} {kind}s are called "{name}"')
    return map_of(found[0], kind)
