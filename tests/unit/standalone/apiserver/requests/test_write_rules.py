"""What the server puts into an object that is written, and what a writer cannot change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests import write_rules
from kvedge.standalone.apiserver.requests.write_rules import Stamp
from kvedge.standalone.apiserver.wire.api_errors import ApiError, BadRequest, Conflict, Invalid

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
STAMP = Stamp(NOW, "uid-1", "abcde")
WIDGET = ServedKind("example.com", "v1", "Widget", "widgets", subresources=("status",), counts_generation=True, crd={})
PLAIN = ServedKind("example.com", "v1", "Widget", "widgets", counts_generation=True, crd={})
NODE = ServedKind("", "v1", "Node", "nodes", namespaced=False, subresources=("status",))
POD = ServedKind("", "v1", "Pod", "pods", subresources=("status",))


def stored(**more: Any) -> dict[str, Any]:
    """A stored Widget."""
    metadata = {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "5",
        "generation": 3,
        "creationTimestamp": "2020-01-01T00:00:00Z",
    }
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"x": 1}, **more}


def test_a_new_object_is_stamped_and_cannot_say_so_itself() -> None:
    obj: dict[str, Any] = {
        "metadata": {"name": "a", "uid": "mine", "deletionTimestamp": "x", "generation": 9, "selfLink": "/x"},
        "status": {"phase": "Up"},
    }
    write_rules.prepare_create(WIDGET, obj, STAMP)
    assert obj["metadata"] == {
        "name": "a",
        "uid": "uid-1",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "generation": 1,
    }
    assert "status" not in obj


def test_a_kind_without_a_status_subresource_keeps_the_status_it_is_created_with() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "a"}, "status": {"phase": "Up"}}
    write_rules.prepare_create(PLAIN, obj, STAMP)
    assert obj["status"] == {"phase": "Up"}


def test_a_node_registers_with_its_status() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}
    write_rules.prepare_create(NODE, obj, STAMP)
    assert obj["status"] == {"capacity": {"cpu": "4"}}
    assert "generation" not in obj["metadata"]


def test_a_long_prefix_is_cut_so_that_the_name_is_not_too_long() -> None:
    obj: dict[str, Any] = {"metadata": {"generateName": "x" * 80}}
    write_rules.prepare_create(WIDGET, obj, STAMP)
    assert obj["metadata"]["name"] == "x" * 58 + "abcde"


def test_an_object_needs_a_name_or_a_prefix() -> None:
    with pytest.raises(Invalid, match="name or generateName is required"):
        write_rules.prepare_create(WIDGET, {"metadata": {}}, STAMP)


def test_a_new_object_has_no_version() -> None:
    with pytest.raises(ApiError, match="resourceVersion should not be set on objects to be created"):
        write_rules.check_unversioned({"metadata": {"name": "a", "resourceVersion": "3"}})
    write_rules.check_unversioned({"metadata": {"name": "a", "resourceVersion": "0"}})


def test_an_update_keeps_what_is_the_servers() -> None:
    live = stored(status={"phase": "Up"})
    obj = stored(status={"phase": "Down"})
    obj["metadata"] = {"name": "a", "generation": 1, "creationTimestamp": "2000-01-01T00:00:00Z"}
    write_rules.prepare_update(WIDGET, live, obj)
    assert obj["status"] == {"phase": "Up"}
    assert obj["metadata"] == {
        "name": "a",
        "uid": "u",
        "generation": 3,
        "creationTimestamp": "2020-01-01T00:00:00Z",
    }


def test_an_update_cannot_add_or_take_back_a_mark_of_deletion() -> None:
    marked = stored()
    marked["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    obj = stored()
    write_rules.prepare_update(WIDGET, marked, obj)
    assert obj["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    other = stored()
    other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    write_rules.prepare_update(WIDGET, stored(), other)
    assert "deletionTimestamp" not in other["metadata"]


def test_the_generation_rises_with_the_spec_but_not_with_labels_or_status() -> None:
    labelled = stored()
    labelled["metadata"]["labels"] = {"a": "b"}
    write_rules.prepare_update(WIDGET, stored(), labelled)
    assert labelled["metadata"]["generation"] == 3
    changed = stored(spec={"x": 2})
    write_rules.prepare_update(WIDGET, stored(), changed)
    assert changed["metadata"]["generation"] == 4
    status = stored(status={"phase": "Up"})
    write_rules.prepare_update(PLAIN, stored(), status)
    assert status["metadata"]["generation"] == 4


def test_another_uid_means_another_object() -> None:
    obj = stored()
    obj["metadata"]["uid"] = "other"
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition: other, UID in object meta: u"):
        write_rules.prepare_update(WIDGET, stored(), obj)


def test_a_status_update_of_a_custom_resource_changes_nothing_else() -> None:
    obj = stored(status={"phase": "Up"}, spec={"x": 9})
    obj["metadata"]["labels"] = {"a": "b"}
    obj["metadata"]["finalizers"] = []
    write_rules.prepare_status_update(WIDGET, stored(), obj)
    assert obj == stored(status={"phase": "Up"})


def test_a_status_update_can_remove_the_status() -> None:
    obj = stored()
    write_rules.prepare_status_update(WIDGET, stored(status={"phase": "Up"}), obj)
    assert "status" not in obj


def test_a_status_update_of_a_pod_may_label_it() -> None:
    obj = stored(status={"phase": "Running"})
    obj["metadata"]["labels"] = {"a": "b"}
    write_rules.prepare_status_update(POD, stored(), obj)
    assert obj["metadata"]["labels"] == {"a": "b"}


def test_only_finalize_changes_what_keeps_a_namespace() -> None:
    namespace = ServedKind("", "v1", "Namespace", "namespaces", namespaced=False, subresources=("status", "finalize"))
    live = {"metadata": {"name": "n", "uid": "u"}, "spec": {"finalizers": ["kubernetes"]}}
    obj: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {"finalizers": []}}
    write_rules.prepare_update(namespace, live, obj)
    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    obj = {"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"finalizers": []}}
    write_rules.prepare_finalize(live, obj)
    assert obj == {"metadata": {"name": "n", "uid": "u"}, "spec": {"finalizers": []}}


def test_a_body_gets_what_the_url_says() -> None:
    obj: dict[str, Any] = {"kind": "Widget", "spec": {}}
    write_rules.check_identity(WIDGET, obj, "n", "a")
    assert list(obj) == ["apiVersion", "kind", "metadata", "spec"]
    assert obj["metadata"] == {"name": "a", "namespace": "n"}


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "Widget", "metadata": {"namespace": "other"}},
        {"kind": "Widget", "metadata": {"name": "other"}},
        {"kind": "Widget", "apiVersion": "example.com/v2"},
        {"kind": "Widget", "metadata": []},
        {},
    ],
    ids=["namespace", "name", "version", "metadata", "no kind"],
)
def test_a_body_that_contradicts_its_url_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        write_rules.check_identity(WIDGET, body, "n", "a")


def test_a_write_that_only_moves_its_own_time_changes_nothing() -> None:
    def managed(time: str, manager: str = "me") -> dict[str, Any]:
        obj = stored()
        obj["metadata"]["managedFields"] = [{"manager": manager, "time": time}]
        return obj

    assert write_rules.same_object(managed("1"), managed("2"))
    assert not write_rules.same_object(managed("1"), managed("1", "you"))
    assert not write_rules.same_object(stored(), stored(spec={"x": 2}))


def test_times_are_read_in_both_their_forms() -> None:
    assert write_rules.timestamp(NOW) == "2026-01-02T03:04:05Z"
    assert write_rules.parse_timestamp("2026-01-02T03:04:05Z") == NOW.replace(microsecond=0)
    assert write_rules.parse_timestamp("2026-01-02T03:04:05.000678Z") == NOW
    assert write_rules.parse_timestamp("2026-01-02T03:04:05") == NOW.replace(microsecond=0)
