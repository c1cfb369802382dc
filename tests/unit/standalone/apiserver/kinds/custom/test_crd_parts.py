"""Definitions that are made of shared parts say the same, in less memory."""

from __future__ import annotations

import json
from typing import Any

from kvedge.resources.manifests.crd_manifest import crds
from kvedge.standalone.apiserver.kinds.custom.crd_parts import SharedParts


def dicts(part: Any, found: dict[int, Any]) -> dict[int, Any]:
    """All dicts of a document by their numbers."""
    if isinstance(part, dict) and id(part) not in found:
        found[id(part)] = part
        for value in part.values():
            dicts(value, found)
    elif isinstance(part, list):
        for item in part:
            dicts(item, found)
    return found


def test_definitions_say_the_same_in_a_third_of_the_parts() -> None:
    texts = [json.dumps(each) for each in crds()]
    plain, parts = [json.loads(text) for text in texts], SharedParts()
    shared = [parts.share(json.loads(text)) for text in texts]
    assert [json.dumps(each) for each in shared] == texts
    assert len(dicts(shared, {})) < len(dicts(plain, {})) / 3


def test_equal_parts_are_one_whatever_document_they_are_in() -> None:
    parts = SharedParts()
    one, other = parts.share({"a": [{"x": 1}], "b": "word"}), parts.share({"c": {"x": 1}})
    assert one["a"][0] is other["c"]


def test_what_only_looks_equal_is_not_shared() -> None:
    parts = SharedParts()
    documents = [{"x": 1}, {"x": True}, {"x": 1.0}, {"x": "1"}, {"x": None}, {"x": []}, {"x": {}}, {"y": 1}]
    made = [parts.share(each) for each in documents]
    assert [json.dumps(each) for each in made] == [json.dumps(each) for each in documents]
    assert [json.dumps(parts.share(each)) for each in documents] == [json.dumps(each) for each in documents]


def test_the_order_of_fields_stays() -> None:
    parts = SharedParts()
    assert [list(parts.share(each)) for each in ({"a": 1, "b": 2}, {"b": 2, "a": 1})] == [["a", "b"], ["b", "a"]]


def test_what_is_known_is_bounded() -> None:
    parts = SharedParts()
    for number in range(300):
        parts.share({f"{number}-{each}": [each] for each in range(500)})
    assert len(parts._known) < 60_000
