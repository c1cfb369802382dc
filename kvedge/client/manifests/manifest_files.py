"""Manifests as they stand in files: read, taken apart, and matched with the kinds that a server has.

Called by apply, delete and expand. Reads files and standard input; nothing is sent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge.client.discovery import ServedKind, kind_of_document
from kvedge.client.errors import RefusedError
from kvedge.client.session import Session
from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.resources.kinds import Kind

_ENDINGS: Final = (".yaml", ".yml", ".json")


def read_manifests(name: str) -> Iterator[tuple[str, JsonObject]]:
    """Each document with where it stands; lists are taken apart.

    Raises:
        RefusedError: for a file that cannot be read or is no YAML.
    """
    import yaml

    for source, text in _texts(name):
        try:
            documents = list(yaml.safe_load_all(text))
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise RefusedError(f"{source}: is not YAML: {error}") from error
        for document in documents:
            for item in _split_document(document):
                if not isinstance(item, dict):
                    raise RefusedError(f"{source}: holds something that is no object: {str(item)[:60]!r}")
                yield source, item


def _split_document(document: JsonValue) -> list[JsonValue]:
    """The documents of a list, the document itself, or none where nothing stands."""
    if document is None:
        return []
    if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        return list(document["items"])
    return [document]


def _texts(name: str) -> Iterator[tuple[str, str]]:
    if name == "-":
        try:
            yield "standard input", sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise RefusedError(f"standard input: is not UTF-8 text: {error}") from error
        return
    path = Path(name)
    try:
        files = sorted(item for item in path.iterdir() if item.suffix in _ENDINGS) if path.is_dir() else [path]
    except OSError as error:
        raise RefusedError(f"{path}: cannot be read: {error.strerror}") from error
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except OSError as error:
            raise RefusedError(f"{file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise RefusedError(f"{file}: is not UTF-8 text: {error}") from error


def target_of(session: Session, kinds: list[ServedKind], source: str, document: JsonObject) -> tuple[Kind, JsonObject]:
    """The kind of a manifest, and the manifest with the namespace that it goes to.

    Raises:
        RefusedError: naming where it stands, for one without a kind that is served or without a name.
    """
    try:
        kind = kind_of_document(kinds, document)
    except RefusedError as refused:
        raise RefusedError(f"{source}: {refused.text}") from refused
    metadata = document.setdefault("metadata", {})
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise RefusedError(f"{source}: metadata.name: a manifest of a {kind.kind} needs a name")
    if kind.namespaced:
        metadata.setdefault("namespace", session.namespace)
    try:
        kind.path(str(metadata.get("namespace") or ""), str(metadata["name"]))
    except ValueError as error:
        raise RefusedError(f"{source}: metadata: {error}") from error
    return kind, document
