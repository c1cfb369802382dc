"""Strategic merge patch: lists that merge by key, directives, order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.kinds.types.builtin_schemas import schema_of
from kvedge.standalone.apiserver.patch import merge_patch, strategic_patch
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.json_values import clone, same
from tests.unit.standalone.apiserver.json_strategies import OBJECTS

POD = schema_of("", "Pod") or {}


def patched(spec: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = strategic_patch.apply({"spec": spec}, {"spec": patch}, POD)["spec"]
    return result


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


A, B, C = ({"name": name, "image": f"{name}:1"} for name in "abc")


def test_containers_merge_by_name_and_new_ones_come_first() -> None:
    merged = patched(
        {"containers": [A, B]}, {"containers": [{"name": "c", "image": "c:1"}, {"name": "a", "image": "a:2"}]}
    )
    assert merged["containers"] == [C, {"name": "a", "image": "a:2"}, B]


def test_lists_inside_of_merged_items_merge_too() -> None:
    spec = {
        "containers": [
            {"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}], "args": ["1", "2"]}
        ]
    }
    patch = {"containers": [{"name": "a", "env": [{"name": "Y", "value": "3"}], "args": ["9"]}]}
    assert patched(spec, patch)["containers"][0] == {
        "name": "a",
        "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}],
        "args": ["9"],
    }


def test_ports_merge_by_their_number() -> None:
    spec = {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}]}
    patch = {"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}
    assert patched(spec, patch)["containers"][0]["ports"] == [{"containerPort": 80, "name": "web", "protocol": "TCP"}]


def test_an_atomic_list_is_replaced() -> None:
    spec = {"tolerations": [{"key": "a"}, {"key": "b"}]}
    assert patched(spec, {"tolerations": [{"key": "c"}]})["tolerations"] == [{"key": "c"}]


def test_an_item_is_deleted_by_its_key() -> None:
    assert names(
        patched({"containers": [A, B]}, {"containers": [{"$patch": "delete", "name": "a"}]})["containers"]
    ) == ["b"]


def test_a_list_is_replaced_when_an_item_says_so() -> None:
    merged = patched({"containers": [A, B]}, {"containers": [{"name": "c"}, {"$patch": "replace"}]})
    assert merged["containers"] == [{"name": "c"}]


def test_a_map_is_replaced_or_emptied_when_it_says_so() -> None:
    spec = {"securityContext": {"runAsUser": 1, "fsGroup": 2}}
    assert patched(spec, {"securityContext": {"$patch": "replace", "runAsUser": 3}})["securityContext"] == {
        "runAsUser": 3
    }
    assert patched(spec, {"securityContext": {"$patch": "delete"}})["securityContext"] == {}


def test_null_removes_a_field() -> None:
    assert patched({"nodeName": "a", "hostname": "b"}, {"nodeName": None, "subdomain": None}) == {"hostname": "b"}


def test_retain_keys_clear_what_they_do_not_name() -> None:
    spec = {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    assert patched(spec, patch)["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "emptyDir": {}}]


def test_finalizers_unite_and_are_removed_by_a_parallel_list() -> None:
    before = {"metadata": {"finalizers": ["a", "b"]}}
    added = strategic_patch.apply(before, {"metadata": {"finalizers": ["c", "a"]}}, POD)
    assert added["metadata"]["finalizers"] == ["c", "a", "b"]
    removed = strategic_patch.apply(before, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, POD)
    assert removed["metadata"]["finalizers"] == ["b"]


def test_owners_merge_by_uid_and_conditions_by_type() -> None:
    before = {
        "metadata": {"ownerReferences": [{"uid": "1", "name": "x"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    }
    patch = {
        "metadata": {"ownerReferences": [{"uid": "1", "controller": True}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]},
    }
    merged = strategic_patch.apply(before, patch, POD)
    assert merged["metadata"]["ownerReferences"] == [{"uid": "1", "name": "x", "controller": True}]
    assert merged["status"]["conditions"] == [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]


def test_an_order_is_kept_and_what_only_the_server_has_stays_near_its_place() -> None:
    server = [A, {"name": "sidecar"}, B]
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}],
        "containers": [{"name": "c", "image": "c:1"}],
    }
    assert names(patched({"containers": server}, patch)["containers"]) == ["a", "sidecar", "b", "c"]
    swapped = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    assert names(patched({"containers": [A, B]}, swapped)["containers"]) == ["b", "a"]


def test_what_had_nothing_to_merge_with_keeps_no_directives() -> None:
    patch = {
        "containers": [
            {
                "name": "a",
                "$setElementOrder/env": [{"name": "X"}],
                "env": [{"name": "X", "value": None}, {"$patch": "delete", "name": "Y"}],
            }
        ]
    }
    assert patched({}, patch) == {"containers": [{"name": "a", "env": [{"name": "X"}]}]}


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        pytest.param({"containers": [{"image": "x"}]}, "does not contain declared merge key: name", id="no merge key"),
        pytest.param(
            {"containers": [{"$patch": "delete"}]}, "does not contain declared merge key: name", id="deletes nothing"
        ),
        pytest.param(
            {"containers": [{"$patch": "twist", "name": "a"}]}, "unknown patch type: twist", id="unknown in a list"
        ),
        pytest.param({"securityContext": {"$patch": "merge"}}, "unknown patch type: merge", id="unknown in a map"),
        pytest.param({"$retainKeys": "x"}, "invalid patch format of retainKeys", id="retained is no list"),
        pytest.param({"$retainKeys": ["a"], "hostname": "b"}, "invalid patch format of retainKeys", id="not retained"),
        pytest.param(
            {"$setElementOrder/containers": "x", "containers": [A]},
            "invalid patch format of setElementOrder",
            id="order is no list",
        ),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "b"}], "containers": [A]}, "doesn't match", id="not in the order"
        ),
        pytest.param(
            {"$deleteFromPrimitiveList/containers": "x"},
            "invalid patch format of primitive list",
            id="deletions are no list",
        ),
    ],
)
def test_a_patch_that_makes_no_sense_is_a_bad_request(patch: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRequest) as refused:
        patched({"containers": [A, B], "securityContext": {"runAsUser": 1}}, patch)
    assert why in refused.value.message


def test_a_patch_that_is_no_object_is_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        strategic_patch.apply({}, [], POD)


@given(OBJECTS, OBJECTS)
def test_without_merge_keys_it_is_a_merge_patch_but_for_nulls_in_lists(document: Any, patch: Any) -> None:
    before, given_patch = clone(document), clone(patch)
    merged = strategic_patch.apply(document, patch, {})
    assert same(_no_nulls(merged), _no_nulls(merge_patch.apply(document, patch)))
    assert same(document, before)
    assert same(patch, given_patch)


def _no_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _no_nulls(item) for key, item in value.items() if item is not None}
    return [_no_nulls(item) for item in value] if isinstance(value, list) else value


_containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcd")}, optional={"image": st.sampled_from("xyz")}),
    unique_by=lambda item: item["name"],
    max_size=4,
)


@given(_containers, _containers)
def test_merging_containers_twice_is_merging_them_once(before: list[Any], patch: list[Any]) -> None:
    once = patched({"containers": before}, {"containers": patch})
    assert same(patched(once, {"containers": patch}), once)
    assert {item["name"] for item in once["containers"]} == {item["name"] for item in [*before, *patch]}
