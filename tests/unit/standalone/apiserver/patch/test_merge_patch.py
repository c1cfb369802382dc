"""JSON merge patch: the examples of RFC 7386 and what must hold for any document and any patch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from kvedge.standalone.apiserver.patch import merge_patch
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.json_values import clone, same
from tests.unit.standalone.apiserver.json_strategies import OBJECTS


@pytest.mark.parametrize(
    ("document", "patch", "merged"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replaces"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="adds"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="removes"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list gives way"),
        pytest.param({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, id="to a list"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="merges objects"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists are replaced whole"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="a null that was there stays"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls of new objects are no values"),
        pytest.param({"a": "foo"}, {"a": {"b": [None]}}, {"a": {"b": [None]}}, id="nulls in lists are values"),
    ],
)
def test_merging(document: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]) -> None:
    assert merge_patch.apply(document, patch) == merged


@given(OBJECTS, OBJECTS)
def test_merging_a_patch_twice_is_merging_it_once_and_touches_no_input(document: Any, patch: Any) -> None:
    kept_document, kept_patch = clone(document), clone(patch)
    once = merge_patch.apply(document, patch)
    assert same(merge_patch.apply(once, patch), once)
    assert same(document, kept_document)
    assert same(patch, kept_patch)


@given(OBJECTS)
def test_a_patch_that_sets_what_is_there_changes_nothing_but_nulls(document: Any) -> None:
    without_nulls = merge_patch.apply({}, document)
    assert same(merge_patch.apply(without_nulls, without_nulls), without_nulls)
    assert same(merge_patch.apply(document, {}), document)


@pytest.mark.parametrize("patch", [None, 1, "x", [{"a": 1}]])
def test_a_patch_that_is_no_object_is_refused(patch: Any) -> None:
    with pytest.raises(BadRequest, match="a merge patch must be an object"):
        merge_patch.apply({}, patch)
