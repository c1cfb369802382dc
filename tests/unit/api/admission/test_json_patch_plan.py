"""The patch between two documents: exact, with the jsonpatch library as an oracle, and no longer than what differs."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.api.admission.json_patch_plan import difference, member_difference
from kvedge.resources.codec import JsonObject

NAMES = st.sampled_from(["a", "b", "~", "/", "~1", "a/b", "", "é"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.floats(0, 1), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=20,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=5)


def text(document: object) -> str:
    """JSON, which tells true from 1."""
    return json.dumps(document, sort_keys=True)


def patched(document: JsonObject, patch: list[JsonObject]) -> Any:
    return jsonpatch.apply_patch(copy.deepcopy(document), copy.deepcopy(patch))


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_makes_the_one_document_of_the_other(before: JsonObject, after: JsonObject) -> None:
    assert text(patched(before, list(difference(before, after)))) == text(after)


@given(DOCUMENTS)
def test_what_is_the_same_takes_no_patch(document: JsonObject) -> None:
    assert list(difference(document, copy.deepcopy(document))) == []


@given(DOCUMENTS, DOCUMENTS, NAMES)
def test_a_member_is_one_operation_at_most(before: JsonObject, after: JsonObject, name: str) -> None:
    patch = list(member_difference(before, after, name))
    assert len(patch) <= 1
    changed = patched(before, patch)
    assert text([changed.get(name), name in changed]) == text([after.get(name), name in after])
    changed.pop(name, None)
    assert text(changed) == text({key: value for key, value in before.items() if key != name})


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": [1, 2]}, {"a": [2]}, [{"op": "replace", "path": "/a", "value": [2]}]),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, [{"op": "add", "path": "/a/c", "value": 2}]),
        ({"a/b": {"~": 1}}, {"a/b": {}}, [{"op": "remove", "path": "/a~1b/~0"}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": None}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
    ],
    ids=["lists whole", "objects by member", "names escaped", "one is not true", "null is a value"],
)
def test_patches(before: JsonObject, after: JsonObject, patch: list[JsonObject]) -> None:
    assert list(difference(before, after)) == patch
