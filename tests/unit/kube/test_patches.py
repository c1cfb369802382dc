"""Merge patches that are made from two documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.kube.patches import (
    ApplyPatch,
    JsonPatch,
    MergePatch,
    StrategicPatch,
    at_version,
    content_type,
    document,
    merge_difference,
)
from tests.support.builders import patched

# A null in a document cannot be told from an absent member by a merge patch, so documents hold none.
VALUES = st.recursive(
    st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"]) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(DOCUMENTS, DOCUMENTS)
def test_a_difference_makes_the_new_document_of_the_old(old, new):
    assert patched(old, merge_difference(old, new)) == new


@given(DOCUMENTS)
def test_there_is_no_difference_between_the_same(old):
    assert merge_difference(old, old) == {}


def test_only_what_changed_is_in_a_difference():
    old = {"a": 1, "b": {"c": 1, "d": 2}, "gone": 1}
    assert merge_difference(old, {"a": 1, "b": {"c": 1, "d": 3}}) == {"b": {"d": 3}, "gone": None}


def test_a_version_joins_the_metadata_that_a_patch_has():
    body = {"metadata": {"labels": {"a": "b"}}}
    assert at_version(body, "7").body == {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}}
    assert body == {"metadata": {"labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("patch", "kind"),
    [
        (MergePatch({}), "application/merge-patch+json"),
        (JsonPatch([]), "application/json-patch+json"),
        (StrategicPatch({}), "application/strategic-merge-patch+json"),
        (ApplyPatch({}, "kvedge"), "application/apply-patch+yaml"),
    ],
)
def test_each_patch_says_what_it_is(patch, kind):
    assert content_type(patch) == kind
    assert document(patch) in ({}, [])
