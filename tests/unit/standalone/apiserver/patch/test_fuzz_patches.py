# Tests: kvedge/standalone/apiserver/patch/
"""The fuzz targets of the patches: whatever is sent, each does what its definition says or is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.standalone.apiserver.kinds.types.builtin_schemas import schema_of
from kvedge.standalone.apiserver.patch import json_patch, merge_patch, server_apply, strategic_patch
from kvedge.standalone.apiserver.wire.api_errors import ApiError
from kvedge.standalone.apiserver.wire.json_values import MAX_DEPTH, clone, is_deep, same
from tests.support.mutations import changed
from tests.unit.standalone.apiserver.json_strategies import OBJECTS, VALUES

ROUNDS = 2500

_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "labels": {"a": "b"},
        "finalizers": ["x/y"],
        "ownerReferences": [{"uid": "1", "name": "o"}],
    },
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}], "env": [{"name": "A"}]},
            {"name": "d", "image": "j", "volumeMounts": [{"mountPath": "/v", "name": "v"}]},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k"}],
    },
}
_SCHEMA = schema_of("", "Pod") or {}
_POINTERS = (
    "",
    "/",
    "/metadata",
    "/metadata/labels/a",
    "/metadata/finalizers/-",
    "/metadata/finalizers/0",
    "/spec/containers/1",
)
_POINTERS += (
    "/spec/containers/1/name",
    "/spec/containers/01",
    "/spec/containers/99999999999999999999",
    "/a~1b",
    "/a~2",
    "//",
)
_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test", "", "ADD", None)


def outcome(call: Callable[[], Any]) -> Any:
    """What it returns, or its refusal; any other end is a finding."""
    try:
        return call()
    except ApiError as refusal:
        return refusal


def operation(chance: random.Random) -> Any:
    """One operation, which may be none."""
    step: dict[str, Any] = {
        "op": chance.choice(_OPERATIONS[: chance.choice((6, 6, 6, 9))]),
        "path": chance.choice(_POINTERS),
    }
    if chance.random() < 0.7:
        step["value"] = clone(chance.choice((1, None, "x", [], {}, _POD["spec"], {"name": "e"})))
    if chance.random() < 0.6:
        step["from"] = chance.choice(_POINTERS)
    return changed(step, chance) if chance.random() < 0.15 else step


def by_the_library(document: Any, operations: Any) -> Any:
    """What the usual library makes of it; None when it refuses."""
    try:
        return jsonpatch.JsonPatch(operations).apply(document)
    except (
        jsonpatch.JsonPatchException,
        jsonpatch.JsonPointerException,
        TypeError,
        IndexError,
        KeyError,
        ValueError,
        AttributeError,
    ):
        return None


def test_a_json_patch_does_what_the_library_does_or_is_refused() -> None:
    chance, done = random.Random(5), 0
    for _ in range(ROUNDS):
        before = clone(_POD)
        operations = [operation(chance) for _ in range(chance.randint(1, 5))]
        kept = clone(operations)
        after = outcome(lambda: json_patch.apply(before, operations))  # noqa: B023 - called at once
        assert same(before, _POD)
        assert same(operations, kept)
        if isinstance(after, ApiError):
            assert after.code in (400, 413, 422)
            continue
        done += 1
        assert isinstance(after, dict)
        assert not is_deep(after, MAX_DEPTH)
        expected = by_the_library(clone(_POD), operations)
        # The library knows no absent value in a test; everything else that we do, it does.
        if expected is not None:
            assert same(after, expected), operations
    assert done > ROUNDS // 20


def test_patches_that_pile_depth_on_depth_are_refused() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = {"a": deep}
    operations = [{"op": "copy", "from": "/a", "path": "/" + "/".join(["a"] * 59)}] * 40
    for count in (1, 5, 40):
        after = outcome(lambda: json_patch.apply({"a": deep}, operations[:count]))  # noqa: B023 - called at once
        assert after.code in (413, 422) if isinstance(after, ApiError) else not is_deep(after, MAX_DEPTH)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@given(OBJECTS, OBJECTS)
@settings(derandomize=True, max_examples=400)
def test_a_merge_patch_does_what_the_rfc_says(document: Any, patch: Any) -> None:
    kept, sent = clone(document), clone(patch)
    assert same(merge_patch.apply(document, patch), merged(document, patch))
    assert same(document, kept)
    assert same(patch, sent)


def difference(before: Any, after: Any) -> Any:
    """The merge patch that leads from one to the other, where neither has a null."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before or not same(before[key], value):
            both = isinstance(value, dict) and isinstance(before.get(key), dict)
            patch[key] = difference(before[key], value) if both else value
    return patch


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


@given(OBJECTS, OBJECTS)
@settings(derandomize=True, max_examples=300)
def test_the_difference_of_two_documents_leads_from_one_to_the_other(one: Any, other: Any) -> None:
    before, after = without_nulls(one), without_nulls(other)
    patch = difference(before, after)
    assert same(merge_patch.apply(before, patch), after)
    # And without a schema a strategic patch is a merge patch, but for lists of objects.
    assert same(strategic_patch.apply(before, patch, {}), after)


def test_a_strategic_patch_is_applied_or_refused_and_touches_nothing() -> None:
    chance, done = random.Random(6), 0
    for _ in range(ROUNDS):
        before, patch = clone(_POD), changed({"metadata": _POD["metadata"], "spec": _POD["spec"]}, chance)
        if not isinstance(patch, dict):
            continue
        kept = clone(patch)
        after = outcome(lambda: strategic_patch.apply(before, patch, _SCHEMA))  # noqa: B023 - called at once
        assert same(before, _POD)
        assert same(patch, kept)
        if isinstance(after, ApiError):
            assert after.code in (400, 422, 500)
            continue
        done += 1
        again = outcome(lambda: strategic_patch.apply(after, patch, _SCHEMA))  # noqa: B023 - called at once
        # What was put where nothing was is merged for the first time now, and may be refused: it is not of its type.
        if not _has_directive(patch) and not isinstance(again, ApiError):
            assert same(_sorted(again), _sorted(after))
    assert done > ROUNDS // 4


def _has_directive(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key.startswith("$") or _has_directive(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_directive, value))


def _sorted(value: Any) -> Any:
    """Lists without their order and without doubles, which a merge of lists may change once."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted({repr(_sorted(item)) for item in value})
    return value


@given(st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("abcd"), unique=True), VALUES)
@settings(derandomize=True, max_examples=150)
def test_lists_with_a_key_are_united_by_it(before: list[str], patch: list[str], value: Any) -> None:
    document = {"spec": {"containers": [{"name": name, "image": "old"} for name in before]}}
    wanted = {"spec": {"containers": [{"name": name, "image": "new"} for name in patch]}}
    after = strategic_patch.apply(document, wanted, _SCHEMA)
    found = {item["name"]: item["image"] for item in after["spec"]["containers"]}
    assert found == {name: "new" if name in patch else "old" for name in {*before, *patch}}


_WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_apply_is_done_or_refused_and_twice_is_once() -> None:
    chance, done = random.Random(7), 0
    writer = server_apply.Writer("m", "v1", "", True)
    other = server_apply.Writer("n", "v1", "", True)
    for _ in range(ROUNDS // 5):
        first, second = changed(_POD, chance), changed(_POD, chance)
        if not all(isinstance(each, dict) and isinstance(each.get("metadata"), dict) for each in (first, second)):
            continue
        kept = clone(second)
        live = outcome(lambda: server_apply.apply(None, first, writer, _SCHEMA, _WHEN, force=True))  # noqa: B023
        if isinstance(live, ApiError):
            assert live.code in (400, 422, 500)
            continue
        after = outcome(lambda: server_apply.apply(live, second, other, _SCHEMA, _WHEN, force=True))  # noqa: B023
        if isinstance(after, ApiError):
            assert after.code in (400, 422, 500)
            continue
        done += 1
        assert same(server_apply.apply(after, clone(kept), other, _SCHEMA, _WHEN, force=False), after)
        assert same(second, kept)
    assert done > ROUNDS // 50
