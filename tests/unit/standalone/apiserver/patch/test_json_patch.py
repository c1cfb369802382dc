"""JSON patch: the appendix of RFC 6902, what an API server refuses, and the jsonpatch library as an oracle."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.patch import json_patch
from kvedge.standalone.apiserver.wire.api_errors import ApiError, BadRequest
from kvedge.standalone.apiserver.wire.json_values import clone, same
from tests.unit.standalone.apiserver.json_strategies import OBJECTS, VALUES


@pytest.mark.parametrize(
    ("document", "operations", "patched"),
    [
        pytest.param({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}, id="adds a member"),
        pytest.param(
            {"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}, id="inserts an item"
        ),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}, id="appends an item"),
        pytest.param({"a": 1, "b": 2}, [{"op": "remove", "path": "/b"}], {"a": 1}, id="removes a member"),
        pytest.param({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="removes an item"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}, id="replaces a value"),
        pytest.param(
            {"a": [1, 2]}, [{"op": "replace", "path": "/a/1", "value": 3}], {"a": [1, 3]}, id="replaces an item"
        ),
        pytest.param(
            {"a": {"b": 1}, "c": {}},
            [{"op": "move", "from": "/a/b", "path": "/c/b"}],
            {"a": {}, "c": {"b": 1}},
            id="moves",
        ),
        pytest.param(
            {"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]}, id="moves in a list"
        ),
        pytest.param(
            {"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}, id="copies"
        ),
        pytest.param(
            {"a/b": 1, "m~n": 2},
            [{"op": "remove", "path": "/a~1b"}, {"op": "test", "path": "/m~0n", "value": 2}],
            {"m~n": 2},
            id="escapes",
        ),
        pytest.param({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}, id="a test passes"),
        pytest.param({}, [{"op": "test", "path": "/a/b", "value": None}], {}, id="what is absent tests as null"),
        pytest.param(
            {"o": {}}, [{"op": "replace", "path": "/o/x", "value": 2}], {"o": {"x": 2}}, id="replaces what is not there"
        ),
        pytest.param({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}, id="the whole document"),
    ],
)
def test_patching(document: dict[str, Any], operations: list[dict[str, Any]], patched: dict[str, Any]) -> None:
    assert json_patch.apply(document, operations) == patched


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        pytest.param({"op": "test", "path": "/a", "value": 2}, "testing value /a failed", id="a test fails"),
        pytest.param({"op": "test", "path": "/a", "value": True}, "testing value /a failed", id="one is not true"),
        pytest.param(
            {"op": "remove", "path": "/x"},
            "remove operation does not apply: doc is missing path: /x: missing value",
            id="absent",
        ),
        pytest.param(
            {"op": "replace", "path": "/l/2", "value": 1},
            "replace operation does not apply: doc is missing path: /l/2",
            id="no item to replace",
        ),
        pytest.param(
            {"op": "replace", "path": "/x/y", "value": 1},
            "replace operation does not apply: doc is missing path: /x/y",
            id="nothing to replace in",
        ),
        pytest.param(
            {"op": "add", "path": "/x/y", "value": 1},
            "add operation does not apply: doc is missing path: /x/y",
            id="no parent",
        ),
        pytest.param({"op": "add", "path": "/l/3", "value": 1}, "doc is missing path: /l/3", id="beyond the end"),
        pytest.param({"op": "add", "path": "/l/01", "value": 1}, "doc is missing path: /l/01", id="a leading zero"),
        pytest.param({"op": "remove", "path": "/l/-"}, "doc is missing path: /l/-", id="nothing after the end"),
        pytest.param({"op": "move", "from": "/o", "path": "/o/p"}, "cannot be moved into itself", id="into itself"),
        pytest.param({"op": "add", "path": "/x"}, "it has no value", id="no value"),
        pytest.param({"op": "add", "path": "x", "value": 1}, 'no usable path: "x"', id="no pointer"),
        pytest.param({"op": "merge", "path": "/x"}, "Unexpected kind: merge", id="no such operation"),
        pytest.param({"op": "remove", "path": ""}, "the whole document cannot be removed", id="everything"),
        pytest.param(
            {"op": "replace", "path": "", "value": 1}, "the patched document is not an object", id="not an object"
        ),
    ],
)
def test_an_operation_that_does_not_apply_is_unprocessable(operation: dict[str, Any], why: str) -> None:
    document = {"a": 1, "l": [1, 2], "o": {"p": 1}}
    with pytest.raises(ApiError) as refused:
        json_patch.apply(document, [{"op": "add", "path": "/new", "value": 1}, operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert why in refused.value.message
    assert document == {"a": 1, "l": [1, 2], "o": {"p": 1}}


def test_a_patch_that_is_no_list_of_operations_is_a_bad_request() -> None:
    for patch in ({"op": "add"}, "x", [1]):
        with pytest.raises(BadRequest):
            json_patch.apply({}, patch)


def test_a_patch_cannot_fill_the_memory() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(40)]
    with pytest.raises(ApiError, match="bytes in all") as refused:
        json_patch.apply({"a": ["x" * 10]}, doubling)
    assert refused.value.code == 413
    with pytest.raises(ApiError, match="maximum operations in a JSON patch is 10000, got 10001"):
        json_patch.apply({}, [{"op": "test", "path": "/a", "value": None}] * 10_001)


_paths = st.lists(st.sampled_from(["a", "b", "c", "a~1b", "m~0n", "0", "1", "-"]), min_size=1, max_size=3).map(
    lambda keys: "/" + "/".join(keys)
)
_operations = st.one_of(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace"]), "path": _paths, "value": VALUES}),
    st.fixed_dictionaries({"op": st.just("remove"), "path": _paths}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": _paths, "path": _paths}),
)


def _by_the_library(document: Any, operations: list[dict[str, Any]]) -> Any:
    try:
        return jsonpatch.JsonPatch(operations).apply(document)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, IndexError, KeyError):
        return "refused"


def _by_kvedge(document: Any, operations: list[dict[str, Any]]) -> Any:
    try:
        return json_patch.apply(document, operations)
    except ApiError as refusal:
        return f"refused with {refusal.code}"


@given(OBJECTS, st.lists(_operations, max_size=4))
def test_any_patch_does_what_the_library_does_or_is_refused(document: Any, operations: list[dict[str, Any]]) -> None:
    expected, patched = _by_the_library(document, operations), _by_kvedge(document, operations)
    if patched != "refused with 422" and expected != "refused":
        assert same(patched, expected)
    if expected != "refused" and not any(operation["op"] == "move" for operation in operations):
        # The library moves a value into itself; in everything else it refuses no less than RFC 6902 does.
        assert patched != "refused with 422"


def pointed(key: str) -> str:
    """A key as it stands in a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


@given(OBJECTS, OBJECTS)
def test_a_patch_that_names_each_difference_leads_from_one_document_to_the_other(before: Any, after: Any) -> None:
    kept = clone(before)
    operations = [{"op": "remove", "path": "/" + pointed(key)} for key in before if key not in after]
    operations += [{"op": "add", "path": "/" + pointed(key), "value": value} for key, value in after.items()]
    assert same(json_patch.apply(before, operations), after)
    assert same(before, kept)


@pytest.mark.parametrize("op", ["add", "remove"])
def test_a_patch_that_moves_the_items_of_a_long_list_again_and_again_is_refused(op: str) -> None:
    document = {"a": [0] * 100_000}
    step = {"op": op, "path": "/a/0", "value": 1}
    assert len(json_patch.apply(document, [step] * 500)["a"]) == (100_500 if op == "add" else 99_500)
    with pytest.raises(ApiError, match="may move") as refused:
        json_patch.apply(document, [step] * 2_000)
    assert refused.value.code == 413
