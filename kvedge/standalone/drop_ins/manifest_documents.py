"""A dropped manifest file taken apart into documents, each with its line. Pure.

Used by `manifest_drop_ins`. YAML of any size can be hidden in a few lines of aliases: what it comes to is counted
before anybody walks through it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject, JsonValue

# More than an API server takes in one object, for a whole file.
MOST_BYTES: Final = 4 << 20
_MOST_VALUES: Final = 500_000


class BadManifest(Exception):
    """A file that cannot be applied as it is; `line` is where, from 1, and the text says what and what to do."""

    def __init__(self, line: int, detail: str) -> None:
        super().__init__(detail)
        self.line = line


class ManifestDocument(Struct, frozen=True):
    """One object of a file, and the line on which it begins."""

    line: int
    document: JsonObject

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{self.document['kind']} {self.document['metadata']['name']}"


def manifest_documents(data: bytes) -> list[ManifestDocument]:
    """The objects of a YAML or JSON file; lists are taken apart.

    Raises:
        BadManifest: with the first thing that is wrong.
    """
    if len(data) > MOST_BYTES:
        raise BadManifest(1, f"it has {len(data)} bytes, at most {MOST_BYTES} are read: split it into several files")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadManifest(data.count(b"\n", 0, error.start) + 1, "it is no UTF-8 text: save it as UTF-8") from error
    found: list[ManifestDocument] = []
    for line, value in _yaml_documents(text):
        found += [_check_document(line, item) for item in _take_apart(value)]
    return found


def _yaml_documents(text: str) -> list[tuple[int, JsonValue]]:
    import yaml  # costs 15 ms, and most boxes have no manifests there

    found: list[tuple[int, JsonValue]] = []
    try:
        loader = yaml.SafeLoader(text)
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            value = loader.construct_document(node)
            line = node.start_mark.line + 1
            _count(value, {}, line)
            found.append((line, value))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "it cannot be read"
        raise BadManifest(mark.line + 1 if mark else 1, f"it is not YAML: {problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        detail = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise BadManifest(1, f"it is not YAML: {detail}") from error
    return found


def _count(value: JsonValue, known: dict[int, int], line: int) -> int:
    """How many values there are with every alias written out."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) in known:
        if known[id(value)] == 0:
            raise BadManifest(line, "an alias in it contains itself: write the value out")
        return known[id(value)]
    known[id(value)] = 0
    total = 1 + sum(_count(item, known, line) for item in (value.values() if isinstance(value, dict) else value))
    if total > _MOST_VALUES:
        raise BadManifest(line, f"its aliases come to more than {_MOST_VALUES} values: write less")
    known[id(value)] = total
    return total


def _take_apart(value: JsonValue) -> list[JsonValue]:
    if value is None:
        return []
    if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        return list(value["items"])
    return [value]


def _check_document(line: int, value: JsonValue) -> ManifestDocument:
    if not isinstance(value, dict):
        raise BadManifest(line, f"a manifest is a mapping with apiVersion, kind and metadata, not {str(value)[:40]!r}")
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise BadManifest(line, f"{key}: is missing")
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise BadManifest(line, f"metadata.name: is missing; a {value['kind']} that is applied needs a name")
    return ManifestDocument(line, value)
