"""Options, selections and pages of lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests.list_rules import list_options, list_revision, page_of, read_token, selects
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, Invalid
from tests.unit.standalone.apiserver.stored_objects import stored

POD = ServedKind("", "v1", "Pod", "pods")
WIDGET = ServedKind(
    "example.com",
    "v1",
    "Widget",
    "widgets",
    crd={},
    crd_version={"selectableFields": [{"jsonPath": ".spec.color"}]},
)


def test_options_are_read() -> None:
    options = list_options(
        POD, {"limit": "5", "timeoutSeconds": "9", "resourceVersion": "7", "allowWatchBookmarks": "true"}
    )
    assert (options.limit, options.timeout_seconds, options.revision, options.bookmarks) == (5, 9, 7, True)
    assert options.send_initial is None


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "many"},
        {"resourceVersion": "-1"},
        {"resourceVersion": "x"},
        {"labelSelector": "a in"},
        {"fieldSelector": "spec.unknown=1"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersion": "1", "resourceVersionMatch": "Maybe"},
        {"sendInitialEvents": "true"},
        {"watch": "true", "sendInitialEvents": "true"},
        {"watch": "true", "resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"},
        {"continue": "x", "resourceVersion": "4"},
        {"continue": "x", "resourceVersionMatch": "Exact"},
    ],
    ids=lambda query: " ".join(f"{key}={value}" for key, value in query.items()),
)
def test_options_that_make_no_sense_are_refused(query: dict[str, str]) -> None:
    with pytest.raises((BadRequest, Invalid)):
        list_options(POD, query)


def test_labels_and_fields_must_both_fit() -> None:
    item = stored("a", spec={"nodeName": "n1"}, metadata={"labels": {"x": "y"}})
    assert selects(list_options(POD, {"labelSelector": "x=y", "fieldSelector": "spec.nodeName=n1"}), item)
    assert not selects(list_options(POD, {"labelSelector": "x=y", "fieldSelector": "spec.nodeName=n2"}), item)
    assert not selects(list_options(POD, {"labelSelector": "x=z"}), item)
    assert selects(list_options(POD, {"fieldSelector": "metadata.name=a,metadata.namespace=n"}), item)
    assert not selects(list_options(POD, {"fieldSelector": "metadata.name!=a"}), item)


def test_a_crd_may_declare_fields_to_select_by() -> None:
    item = stored("a", spec={"color": "red"})
    assert selects(list_options(WIDGET, {"fieldSelector": "spec.color=red"}), item)
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.size"):
        list_options(WIDGET, {"fieldSelector": "spec.size=1"})


@given(st.integers(0, 30), st.integers(1, 12))
def test_pages_make_up_the_whole_in_order(count: int, limit: int) -> None:
    objects = [stored(f"w{number:02}", namespace=f"n{number % 3}") for number in range(count)]
    objects.sort(key=lambda item: item.key[1:])
    seen: list[Any] = []
    token, pages = "", 0
    while True:
        options = list_options(POD, {"limit": str(limit), **({"continue": token} if token else {})})
        page = page_of(objects, options, 42)
        seen += page.objects
        pages += 1
        if not page.token:
            assert page.remaining is None
            break
        assert page.remaining == count - len(seen)
        token = page.token
        assert list_revision(list_options(POD, {"continue": token})) == 42
    assert seen == objects
    assert pages == max(1, -(-count // limit))


def test_a_token_that_is_not_ours_is_refused() -> None:
    for text in ("x", "e30=", "!!!!", "bm9wZQ=="):
        with pytest.raises(BadRequest):
            read_token(text)


def test_only_an_exact_match_asks_for_an_old_state() -> None:
    assert list_revision(list_options(POD, {"resourceVersion": "5"})) is None
    assert list_revision(list_options(POD, {"resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"})) is None
    assert list_revision(list_options(POD, {"resourceVersion": "5", "resourceVersionMatch": "Exact"})) == 5
