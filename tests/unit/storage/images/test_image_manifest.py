"""JSON documents of strangers: how deep they may be, and what does not count as depth."""

from __future__ import annotations

import json

import pytest

from kvedge.storage.image_errors import BadImage
from kvedge.storage.images.image_manifest import parse_json


@pytest.mark.parametrize(
    "text",
    ["[" * 101, "[" * 2_000_000, '{"a":' * 101, '["\\"]",' + "[" * 100, "[" * 101 + "]" * 101],
    ids=["open", "without end", "objects", "after a string", "a whole document"],
)
def test_a_document_that_is_nested_too_deep_is_refused_before_it_is_parsed(text: str) -> None:
    with pytest.raises(BadImage, match="nested deeper than 100 levels"):
        parse_json(text.encode(), "index.json")


@pytest.mark.parametrize(
    "document",
    [{"a": "[" * 500}, {'a\\"': '"[' * 500, "[" * 200: 1}, [[[]] * 500], json.loads("[" * 100 + "]" * 100)],
    ids=["brackets in a string", "quotes in strings", "many beside each other", "as deep as allowed"],
)
def test_brackets_in_strings_and_beside_each_other_are_no_depth(document: object) -> None:
    assert parse_json(json.dumps(document).encode(), "manifest") == document


@pytest.mark.parametrize("data", [b'"' * 1_000_001, b'"' + b'\\"' * 500_000, b"\\" * 1_000_000, b"\xff\xfe[\0"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(BadImage, match="is no JSON document"):
        parse_json(data, "manifest")
