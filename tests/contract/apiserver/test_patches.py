"""The four kinds of patch, and who owns which field afterwards."""

from __future__ import annotations

import pytest

from tests.support.api_client import APPLY, JSON_PATCH, STRATEGIC, Answer, ApiClient
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract


def apply(admin: ApiClient, path: str, body: object, manager: str, **query: str) -> Answer:
    """A server-side apply."""
    return admin.patch(path, body, APPLY, fieldManager=manager, **query)


def test_a_merge_patch_sets_and_removes(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("a", one="1", two="2"))
    patched = admin.patch(config_maps(namespace, "a"), {"data": {"one": None, "three": "3"}}).json
    assert patched["data"] == {"two": "2", "three": "3"}


def test_a_json_patch_does_its_steps_or_nothing(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a", 1))
    path = widgets(namespace, "a")
    steps = [{"op": "test", "path": "/spec/size", "value": 1}, {"op": "replace", "path": "/spec/size", "value": 2}]
    assert admin.patch(path, steps, JSON_PATCH).json["spec"]["size"] == 2
    answer = admin.patch(path, steps, JSON_PATCH)
    assert answer.status == 422
    assert admin.patch(path, [{"op": "remove", "path": "/spec/nothing"}], JSON_PATCH).status == 422
    assert admin.patch(path, b"{", JSON_PATCH).status == 400
    assert admin.get(path).json["spec"]["size"] == 2


def test_a_json_patch_replaces_what_is_not_there(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("a", one="1"))
    path = config_maps(namespace, "a")
    labels = [{"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}}]
    assert admin.patch(path, labels, JSON_PATCH).json["metadata"]["labels"] == {"a": "b"}
    assert admin.patch(path, [{"op": "replace", "path": "/data/two", "value": "2"}], JSON_PATCH).json["data"] == {
        "one": "1",
        "two": "2",
    }
    # Only the last member may be missing.
    assert admin.patch(path, [{"op": "replace", "path": "/spec/size", "value": 1}], JSON_PATCH).status == 422


def test_a_strategic_patch_merges_lists_by_their_key(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), pod("p", tolerations=[{"key": "x", "operator": "Exists"}]))
    patch = {"spec": {"containers": [{"name": "main", "image": "example.com/image:2"}]}}
    patched = admin.patch(pods(namespace, "p"), patch, STRATEGIC).json
    assert patched["spec"]["containers"][0]["image"] == "example.com/image:2"
    assert patched["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_a_custom_resource_takes_no_strategic_patch(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a"))
    answer = admin.patch(widgets(namespace, "a"), {"spec": {"size": 2}}, STRATEGIC)
    assert answer.status == 415
    assert answer.message == (
        "the body of the request was in an unknown format - accepted media types include:"
        " application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


def test_a_patch_without_a_known_type_is_refused(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("a"))
    assert admin.patch(config_maps(namespace, "a"), {}, "application/json").status == 415


def test_a_patch_that_names_an_old_version_conflicts(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace), widget("a", 1))
    old = made["metadata"]["resourceVersion"]
    path = widgets(namespace, "a")
    assert admin.patch(path, {"metadata": {"resourceVersion": old}, "spec": {"size": 2}}).status == 200
    assert admin.patch(path, {"metadata": {"resourceVersion": old}, "spec": {"size": 3}}).status == 409


def test_a_patch_cannot_rename(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("a"))
    assert admin.patch(config_maps(namespace, "a"), {"metadata": {"name": "b"}}).status == 400


def test_an_apply_creates_and_then_changes(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "a")
    first = apply(admin, path, widget("a", 1), "me")
    assert first.status == 201
    second = apply(admin, path, widget("a", 2, replicas=1), "me")
    assert second.status == 200
    assert second.json["spec"] == {"size": 2, "replicas": 1, "color": "red"}
    third = apply(admin, path, widget("a", 2), "me")
    assert "replicas" not in third.json["spec"]
    entries = third.json["metadata"]["managedFields"]
    assert [(entry["manager"], entry["operation"]) for entry in entries] == [("me", "Apply")]
    assert entries[0]["fieldsV1"] == {"f:spec": {"f:size": {}}}


def test_what_others_own_conflicts_unless_forced(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "a")
    apply(admin, path, widget("a", 1), "me")
    answer = apply(admin, path, widget("a", 2), "you")
    assert answer.status == 409
    assert answer.json["reason"] == "Conflict"
    assert answer.message == 'Apply failed with 1 conflict: conflict with "me": .spec.size'
    assert answer.causes == [{"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".spec.size"}]
    forced = apply(admin, path, widget("a", 2), "you", force="true")
    assert forced.json["spec"]["size"] == 2
    assert {entry["manager"] for entry in forced.json["metadata"]["managedFields"]} == {"you"}


def test_two_appliers_share_a_list_of_maps(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "a")
    apply(admin, path, widget("a", 1, parts=[{"name": "x", "weight": 1}]), "me")
    apply(admin, path, widget("a", 1, parts=[{"name": "y", "weight": 2}]), "you")
    both = admin.get(path).json["spec"]["parts"]
    assert sorted(part["name"] for part in both) == ["x", "y"]
    apply(admin, path, widget("a", 1), "me")
    assert admin.get(path).json["spec"]["parts"] == [{"name": "y", "weight": 2}]


def test_a_plain_write_owns_what_it_changed(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "a")
    apply(admin, path, widget("a", 1), "me")
    admin.patch(path, {"spec": {"size": 5}}, fieldManager="somebody")
    owners = {entry["manager"]: entry["fieldsV1"] for entry in admin.get(path).json["metadata"]["managedFields"]}
    assert owners == {"somebody": {"f:spec": {"f:size": {}}}}


def test_a_status_apply_owns_status_only(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "a")
    admin.made(widgets(namespace), widget("a", 1))
    body = {**widget("a", 9), "status": {"phase": "Up"}}
    applied = apply(admin, f"{path}/status", body, "me").json
    assert applied["status"] == {"phase": "Up"}
    assert applied["spec"]["size"] == 1
    mine = [entry for entry in applied["metadata"]["managedFields"] if entry["manager"] == "me"]
    assert [(entry["subresource"], entry["fieldsV1"]) for entry in mine] == [("status", {"f:status": {"f:phase": {}}})]


def test_an_apply_says_who_applies_and_what(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "a")
    nobody = admin.patch(path, widget("a"), APPLY)
    assert nobody.status in (400, 422)
    assert "fieldManager" in nobody.message
    assert apply(admin, path, {"spec": {"size": 1}}, "me").status == 400
    assert apply(admin, path, widget("b"), "me").status == 400
    assert admin.patch(path, {"spec": {"size": 1}}, force="true").status == 422


def test_an_apply_that_changes_nothing_makes_no_new_version(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "a")
    first = apply(admin, path, widget("a", 1), "me").json
    again = apply(admin, path, widget("a", 1), "me").json
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_the_manager_is_the_name_of_the_program_unless_it_says_another(admin: ApiClient, namespace: str) -> None:
    made = admin.made(config_maps(namespace), config_map("a", x="y"))
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["contract"]
