"""Deleting: at once, by mark, with conditions, many together."""

from __future__ import annotations

import pytest

from tests.support.api_client import ApiClient, names
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract


def test_a_deleted_custom_resource_is_answered_with_a_status(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace), widget("a"))
    answer = admin.delete(widgets(namespace, "a"))
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "group": "example.com", "kind": "widgets", "uid": made["metadata"]["uid"]},
    }
    assert admin.get(widgets(namespace, "a")).status == 404


def test_a_pod_that_no_kubelet_has_goes_at_once(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), pod("p"))
    assert admin.delete(pods(namespace, "p")).json["kind"] == "Pod"
    assert admin.get(pods(namespace, "p")).status == 404


def test_a_pod_on_a_node_stays_until_its_kubelet_has_ended_it(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), pod("p", nodeName="n1"))
    path = pods(namespace, "p")
    marked = admin.delete(path).json
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 5
    assert marked["metadata"]["deletionTimestamp"] > marked["metadata"]["creationTimestamp"]
    again = admin.delete(path).json
    assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    shorter = admin.delete(path, gracePeriodSeconds="2").json
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 2
    assert admin.get(path).status == 200
    assert admin.delete(path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}).status == 200
    assert admin.get(path).status == 404


def test_a_pod_that_has_ended_is_not_waited_for(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), pod("p", nodeName="n1"))
    admin.patch(pods(namespace, "p") + "/status", {"status": {"phase": "Succeeded"}})
    admin.delete(pods(namespace, "p"))
    assert admin.get(pods(namespace, "p")).status == 404


def test_only_the_object_that_was_meant_is_deleted(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace), widget("a"))
    path = widgets(namespace, "a")
    wrong_uid = admin.delete(path, {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}})
    assert wrong_uid.status == 409
    assert "the UID in the precondition" in wrong_uid.message
    wrong_version = admin.delete(path, {"preconditions": {"resourceVersion": "1"}})
    assert wrong_version.status == 409
    assert "the ResourceVersion in the precondition (1) does not match" in wrong_version.message
    right = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    assert admin.delete(path, {"preconditions": right}).status == 200


def test_finalizers_keep_an_object_until_they_are_taken_off(admin: ApiClient, namespace: str) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    admin.made(config_maps(namespace), body)
    path = config_maps(namespace, "a")
    first = admin.delete(path)
    assert first.status == 200
    assert first.json["metadata"]["deletionTimestamp"]
    again = admin.delete(path).json
    assert again["metadata"]["resourceVersion"] == first.json["metadata"]["resourceVersion"]
    assert admin.patch(path, {"metadata": {"finalizers": ["example.com/one"]}}).status == 200
    assert admin.get(path).status == 200
    assert admin.patch(path, {"metadata": {"finalizers": None}}).status == 200
    assert admin.get(path).status == 404


def test_a_mark_cannot_be_taken_back(admin: ApiClient, namespace: str) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/one"]
    admin.made(config_maps(namespace), body)
    marked = admin.delete(config_maps(namespace, "a")).json
    stripped = {key: value for key, value in marked["metadata"].items() if not key.startswith("deletion")}
    replaced = admin.put(config_maps(namespace, "a"), {**marked, "metadata": stripped, "data": {"x": "y"}}).json
    assert replaced["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")], ids=["foreground", "orphan"]
)
def test_a_policy_that_waits_for_the_dependents_is_a_finalizer(
    admin: ApiClient, namespace: str, policy: str, finalizer: str
) -> None:
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.com/one"]
    admin.made(widgets(namespace), body)
    marked = admin.delete(widgets(namespace, "a"), {"propagationPolicy": policy}).json
    assert sorted(marked["metadata"]["finalizers"]) == sorted(["example.com/one", finalizer])


def test_delete_options_that_make_no_sense_are_refused(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a"))
    assert admin.delete(widgets(namespace, "a"), {"propagationPolicy": "Sometimes"}).status == 422
    both = {"propagationPolicy": "Background", "orphanDependents": True}
    assert admin.delete(widgets(namespace, "a"), both).status == 422
    assert admin.get(widgets(namespace, "a")).status == 200


def test_a_selection_is_deleted_at_once(admin: ApiClient, namespace: str) -> None:
    for name in "abc":
        admin.made(config_maps(namespace), config_map(name, labels={"go": "no" if name == "b" else "yes"}))
    answer = admin.delete(config_maps(namespace), labelSelector="go=yes")
    assert answer.status == 200
    assert answer.json["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "c"]
    left = names(admin.get(config_maps(namespace)))
    assert "b" in left
    assert not {"a", "c"} & set(left)


def test_the_namespaces_that_everybody_needs_cannot_be_deleted(admin: ApiClient) -> None:
    answer = admin.delete("/api/v1/namespaces/default")
    assert answer.status == 403
    assert answer.message == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_nothing_is_created_in_a_namespace_that_is_going(admin: ApiClient, namespace: str) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    admin.made(config_maps(namespace), held)
    marked = admin.delete(f"/api/v1/namespaces/{namespace}").json
    assert marked["status"]["phase"] == "Terminating"
    answer = admin.post(config_maps(namespace), config_map("late"))
    assert answer.status == 403
    assert answer.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {namespace}'
        " because it is being terminated"
    )
    assert answer.causes[0]["reason"] == "NamespaceTerminating"
    admin.patch(config_maps(namespace, "held"), {"metadata": {"finalizers": None}})


def test_an_eviction_deletes_the_pod(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), pod("p"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": namespace}}
    answer = admin.post(pods(namespace, "p") + "/eviction", body)
    assert (answer.status, answer.json["status"]) == (201, "Success")
    assert admin.get(pods(namespace, "p")).status == 404


def test_a_binding_puts_a_pod_on_a_node_once(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), pod("p"))
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    assert admin.post(pods(namespace, "p") + "/binding", body).status == 201
    bound = admin.get(pods(namespace, "p")).json
    assert bound["spec"]["nodeName"] == "n1"
    assert [item["type"] for item in bound["status"]["conditions"]] == ["PodScheduled"]
    assert admin.post(pods(namespace, "p") + "/binding", body).status == 409
