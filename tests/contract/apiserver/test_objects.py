"""Creating, reading and replacing objects, and what is said when that is not possible."""

from __future__ import annotations

import re

import pytest

from tests.contract.apiserver.conftest import Server
from tests.support.api_client import ApiClient
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract


def test_a_created_object_gets_what_only_the_server_gives(admin: ApiClient, namespace: str) -> None:
    given = {**widget("a"), "metadata": {"name": "a", "uid": "x", "creationTimestamp": "2001-01-01T00:00:00Z"}}
    made = admin.made(widgets(namespace), given)
    metadata = made["metadata"]
    assert made["apiVersion"] == "example.com/v1"
    assert made["kind"] == "Widget"
    assert metadata["namespace"] == namespace
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert not metadata["creationTimestamp"].startswith("2001")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["generation"] == 1
    assert int(metadata["resourceVersion"]) > 0
    assert admin.get(widgets(namespace, "a")).json == made


def test_a_generated_name_begins_with_its_prefix(admin: ApiClient, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}}
    first, second = (admin.made(config_maps(namespace), body)["metadata"]["name"] for _ in range(2))
    assert re.fullmatch(r"some-[bcdfghjklmnpqrstvwxz2456789]{5}", first)
    assert first != second


def test_an_object_without_a_name_is_refused(admin: ApiClient, namespace: str) -> None:
    answer = admin.post(config_maps(namespace), {"apiVersion": "v1", "kind": "ConfigMap"})
    assert answer.status == 422
    assert answer.json["reason"] == "Invalid"
    assert {"reason": "FieldValueRequired", "field": "metadata.name"}.items() <= answer.causes[0].items()


def test_a_second_object_of_the_same_name_is_refused(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a"))
    answer = admin.post(widgets(namespace), widget("a"))
    assert answer.status == 409
    assert answer.json["reason"] == "AlreadyExists"
    assert answer.message == 'widgets.example.com "a" already exists'
    assert answer.json["details"] == {"name": "a", "group": "example.com", "kind": "widgets"}


def test_what_is_not_there_is_not_found(admin: ApiClient, namespace: str) -> None:
    answer = admin.get(widgets(namespace, "nobody"))
    assert answer.status == 404
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'widgets.example.com "nobody" not found',
        "reason": "NotFound",
        "details": {"name": "nobody", "group": "example.com", "kind": "widgets"},
        "code": 404,
    }
    assert admin.get(config_maps(namespace, "nobody")).message == 'configmaps "nobody" not found'
    assert admin.put(widgets(namespace, "nobody"), widget("nobody")).status in (404, 422)
    assert admin.patch(widgets(namespace, "nobody"), {}).status == 404
    assert admin.delete(widgets(namespace, "nobody")).status == 404


def test_a_resource_that_is_not_served_is_not_found(admin: ApiClient) -> None:
    for path in ("/apis/example.com/v1/gadgets", "/apis/nobody.example.com/v1/x", "/api/v1/vms", "/nothing"):
        answer = admin.get(path)
        assert answer.status == 404, path


def test_nothing_is_created_in_a_namespace_that_is_not_there(admin: ApiClient) -> None:
    answer = admin.post(widgets("nowhere"), widget("a"))
    assert answer.status == 404
    assert answer.message == 'namespaces "nowhere" not found'
    assert answer.json["details"] == {"name": "nowhere", "kind": "namespaces"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"name": "a", "namespace": "other"}}, "does not match the namespace sent on the request"),
        ({"apiVersion": "example.com/v2"}, "does not match the expected API version"),
    ],
    ids=["another namespace", "another version"],
)
def test_a_body_that_contradicts_the_url_is_a_bad_request(
    admin: ApiClient, namespace: str, change: dict[str, object], message: str
) -> None:
    answer = admin.post(widgets(namespace), {**widget("a"), **change})
    assert answer.status == 400
    assert answer.json["reason"] == "BadRequest"
    assert message in answer.message


def test_a_body_of_another_kind_is_refused(admin: ApiClient, namespace: str) -> None:
    custom = admin.post(widgets(namespace), {**widget("a"), "kind": "Gadget"})
    assert custom.status == 422
    assert custom.message == 'Gadget.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget'
    built_in = admin.post(config_maps(namespace), {**config_map("a"), "kind": "Secret"})
    assert built_in.status == 400
    assert 'Secret in version "v1" cannot be handled as a ConfigMap' in built_in.message


def test_a_put_under_another_name_is_a_bad_request(admin: ApiClient, namespace: str) -> None:
    made = admin.made(config_maps(namespace), config_map("a"))
    answer = admin.put(config_maps(namespace, "b"), made)
    assert answer.status == 400
    assert answer.message == "the name of the object (a) does not match the name on the URL (b)"


def test_bodies_that_are_no_documents_are_bad_requests(admin: ApiClient, namespace: str) -> None:
    for body in (b"{", b"[]", b"3"):
        assert admin.ask("POST", config_maps(namespace), body).status == 400, body


def test_yaml_is_understood(admin: ApiClient, namespace: str) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: text\ndata:\n  day: '2020-01-01'\n"
    answer = admin.ask("POST", config_maps(namespace), text, content_type="application/yaml")
    assert answer.status == 201
    assert answer.json["data"] == {"day": "2020-01-01"}


def test_an_unknown_content_type_is_refused(admin: ApiClient, namespace: str) -> None:
    answer = admin.ask("POST", config_maps(namespace), b"x", content_type="text/plain")
    assert answer.status == 415
    assert answer.json["reason"] == "UnsupportedMediaType"
    assert "application/json" in answer.message


def test_a_replacement_of_an_old_version_conflicts(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace), widget("a", 1))
    newer = {**made, "spec": {"size": 2}}
    assert admin.put(widgets(namespace, "a"), newer).status == 200
    answer = admin.put(widgets(namespace, "a"), newer)
    assert answer.status == 409
    assert answer.json["reason"] == "Conflict"
    assert answer.message == (
        'Operation cannot be fulfilled on widgets.example.com "a": the object has been modified;'
        " please apply your changes to the latest version and try again"
    )


def test_a_custom_resource_is_not_replaced_blindly(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a", 1))
    answer = admin.put(widgets(namespace, "a"), widget("a", 2))
    assert answer.status == 422
    assert answer.causes[0]["field"] == "metadata.resourceVersion"
    assert "must be specified for an update" in answer.message


def test_what_is_not_there_cannot_be_replaced(admin: ApiClient, namespace: str) -> None:
    assert admin.put(widgets(namespace, "absent"), widget("absent")).status == 404
    versioned = widget("absent")
    versioned["metadata"]["resourceVersion"] = "1"
    assert admin.put(widgets(namespace, "absent"), versioned).status in (404, 409)


def test_a_built_in_kind_may_be_replaced_blindly(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("a", key="old"))
    assert admin.put(config_maps(namespace, "a"), config_map("a", key="new")).json["data"] == {"key": "new"}


def test_a_write_that_changes_nothing_makes_no_new_version(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace), widget("a", 1))
    again = admin.put(widgets(namespace, "a"), made).json
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_the_generation_counts_changes_of_the_spec_only(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a", 1))
    path = widgets(namespace, "a")
    assert admin.patch(path, {"metadata": {"labels": {"x": "y"}}}).json["metadata"]["generation"] == 1
    assert admin.patch(f"{path}/status", {"status": {"phase": "Up"}}).json["metadata"]["generation"] == 1
    assert admin.patch(path, {"spec": {"size": 2}}).json["metadata"]["generation"] == 2
    assert admin.patch(path, {"metadata": {"generation": 77}}).json["metadata"]["generation"] == 2


def test_the_uid_and_the_time_of_creation_stay(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace), widget("a", 1))
    path = widgets(namespace, "a")
    stripped = {key: value for key, value in made["metadata"].items() if key not in ("uid", "creationTimestamp")}
    replaced = admin.put(path, {**made, "metadata": stripped, "spec": {"size": 2}}).json
    assert replaced["metadata"]["uid"] == made["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    answer = admin.patch(path, {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}})
    assert answer.status in (409, 422)


def test_a_dry_run_validates_and_stores_nothing(admin: ApiClient, namespace: str) -> None:
    answer = admin.post(widgets(namespace), widget("a", 3), dryRun="All")
    assert answer.status == 201
    assert answer.json["spec"]["color"] == "red"
    assert admin.get(widgets(namespace, "a")).status == 404
    assert admin.post(widgets(namespace), widget("a", 300), dryRun="All").status == 422
    admin.made(widgets(namespace), widget("a", 3))
    assert admin.patch(widgets(namespace, "a"), {"spec": {"size": 4}}, dryRun="All").json["spec"]["size"] == 4
    assert admin.delete(widgets(namespace, "a"), dryRun="All").status == 200
    assert admin.get(widgets(namespace, "a")).json["spec"]["size"] == 3
    assert admin.post(widgets(namespace), widget("b"), dryRun="Some").status == 422


def test_a_version_may_not_be_named_on_create(admin: ApiClient, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}}
    answer = admin.post(config_maps(namespace), body)
    assert answer.status >= 400
    assert answer.message == "resourceVersion should not be set on objects to be created"


@pytest.mark.parametrize("name", ["Upper", "a_b", "-a", "a" * 254], ids=["upper case", "underscore", "dash", "long"])
def test_names_that_dns_would_not_take_are_refused(admin: ApiClient, namespace: str, name: str) -> None:
    answer = admin.post(widgets(namespace), widget(name))
    assert answer.status == 422
    assert answer.causes[0]["field"] == "metadata.name"
    assert answer.json["details"]["kind"] == "Widget"


def test_wrong_labels_are_refused_with_their_place(admin: ApiClient, namespace: str) -> None:
    body = config_map("a", labels={"bad key": "x", "ok": "bad value!"})
    answer = admin.post(config_maps(namespace), body)
    assert answer.status == 422
    assert {cause["field"] for cause in answer.causes} == {"metadata.labels"}
    assert len(answer.causes) == 2


def test_metadata_of_a_wrong_type_is_a_bad_request(admin: ApiClient, namespace: str) -> None:
    for metadata in ({"name": "a", "labels": ["x"]}, {"name": "a", "labels": {"x": 1}}, {"name": 3}):
        answer = admin.post(config_maps(namespace), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        assert answer.status == 400, metadata


def test_plain_secret_texts_become_data(admin: ApiClient, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "value"}}
    made = admin.made(f"/api/v1/namespaces/{namespace}/secrets", body)
    assert made["data"] == {"key": "dmFsdWU="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made


def test_a_pod_gets_its_defaults(admin: ApiClient, namespace: str) -> None:
    made = admin.made(pods(namespace), pod("p"))
    spec = made["spec"]
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "BestEffort")
    assert made["metadata"]["generation"] == 1
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["restartPolicy"] == "Always"
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert spec["terminationGracePeriodSeconds"] == 5


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
    ids=["requests", "limits", "more limits than requests"],
)
def test_a_pod_is_of_the_class_that_its_resources_make(
    admin: ApiClient, namespace: str, resources: dict[str, object], expected: str
) -> None:
    body = pod("p")
    body["spec"]["containers"][0]["resources"] = resources
    assert admin.made(pods(namespace), body)["status"]["qosClass"] == expected


def test_a_namespace_carries_its_name_as_a_label(admin: ApiClient, namespace: str) -> None:
    found = admin.get(f"/api/v1/namespaces/{namespace}").json
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["status"] == {"phase": "Active"}


def test_a_method_that_a_path_does_not_know_is_refused(admin: ApiClient, namespace: str) -> None:
    assert admin.put(config_maps(namespace), config_map("a")).status == 405
    assert admin.delete("/api/v1/namespaces").status == 405


def test_status_is_written_through_its_subresource_only(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace), {**widget("a", 1), "status": {"phase": "Early"}})
    assert "status" not in made
    path = widgets(namespace, "a")
    up = admin.patch(
        f"{path}/status", {"status": {"phase": "Up"}, "spec": {"size": 9}, "metadata": {"labels": {"x": "y"}}}
    )
    assert up.json["status"] == {"phase": "Up"}
    assert up.json["spec"]["size"] == 1
    assert "labels" not in up.json["metadata"]
    down = admin.patch(path, {"status": {"phase": "Down"}, "spec": {"size": 2}})
    assert down.json["status"] == {"phase": "Up"}
    assert down.json["spec"]["size"] == 2
    assert admin.get(f"{path}/status").json == admin.get(path).json
    replaced = admin.put(f"{path}/status", {**down.json, "status": {"phase": "Gone"}, "spec": {"size": 5}}).json
    assert (replaced["status"], replaced["spec"]["size"]) == ({"phase": "Gone"}, 2)


def test_pod_status_is_written_through_its_subresource_only(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), {**pod("p"), "status": {"phase": "Running"}})
    path = pods(namespace, "p")
    assert admin.get(path).json["status"]["phase"] == "Pending"
    assert admin.patch(path, {"status": {"phase": "Running"}}).json["status"]["phase"] == "Pending"
    running = admin.patch(f"{path}/status", {"status": {"phase": "Running", "podIP": "10.9.9.9"}}).json
    assert running["status"]["phase"] == "Running"


def test_the_scale_of_a_custom_resource_is_one_number(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a", 1, replicas=2))
    path = widgets(namespace, "a")
    admin.patch(f"{path}/status", {"status": {"replicas": 1, "selector": "app=a"}})
    scale = admin.get(f"{path}/scale").json
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "app=a"}
    assert admin.patch(f"{path}/scale", {"spec": {"replicas": 5}}).json["spec"] == {"replicas": 5}
    assert admin.put(f"{path}/scale", {**scale, "spec": {"replicas": 7}}).status == 409
    assert admin.get(path).json["spec"]["replicas"] == 5


def test_each_version_of_a_kind_shows_the_same_objects(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace, version="v1alpha1"), widget("a", 1, version="v1alpha1"))
    assert made["apiVersion"] == "example.com/v1alpha1"
    found = admin.get(widgets(namespace, "a")).json
    assert found["apiVersion"] == "example.com/v1"
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    listed = admin.get(widgets(namespace, version="v1alpha1")).json
    assert listed["apiVersion"] == "example.com/v1alpha1"
    assert [item["apiVersion"] for item in listed["items"]] == ["example.com/v1alpha1"]


def test_events_are_the_same_in_both_their_groups(admin: ApiClient, namespace: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
        "reason": "Tested",
        "message": "it works",
        "type": "Normal",
        "source": {"component": "suite"},
        "count": 2,
    }
    admin.made(f"/api/v1/namespaces/{namespace}/events", body)
    found = admin.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/e").json
    assert found["apiVersion"] == "events.k8s.io/v1"
    assert found["note"] == "it works"
    assert found["regarding"]["name"] == "p"
    assert found["deprecatedSource"] == {"component": "suite"}
    assert found["deprecatedCount"] == 2
    assert "message" not in found


def test_fields_that_the_schema_does_not_know_are_dropped_with_a_warning(admin: ApiClient, namespace: str) -> None:
    body = widget("a", 1, wrong=1, free={"anything": 1})
    answer = admin.post(widgets(namespace), body)
    assert answer.status == 201
    assert answer.json["spec"] == {"size": 1, "color": "red", "free": {"anything": 1}}
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.wrong\\""'
    quiet = admin.post(widgets(namespace), {**body, "metadata": {"name": "b"}}, fieldValidation="Ignore")
    assert "Warning" not in quiet.headers
    strict = admin.post(widgets(namespace), {**body, "metadata": {"name": "c"}}, fieldValidation="Strict")
    assert strict.status == 400
    assert 'strict decoding error: unknown field "spec.wrong"' in strict.message


def test_all_that_is_wrong_with_a_custom_resource_is_said_at_once(admin: ApiClient, namespace: str) -> None:
    answer = admin.post(widgets(namespace), widget("a", 11, color="blue", replicas="many"))
    assert answer.status == 422
    assert answer.json["details"]["kind"] == "Widget"
    assert {cause["field"] for cause in answer.causes} >= {"spec.size", "spec.color", "spec.replicas"}
    assert answer.message.startswith('Widget.example.com "a" is invalid: [')


def test_a_finalizer_list_grows_only_before_the_deletion(admin: ApiClient, namespace: str) -> None:
    made = widget("a", 1)
    made["metadata"]["finalizers"] = ["example.com/one"]
    admin.made(widgets(namespace), made)
    path = widgets(namespace, "a")
    marked = admin.delete(path).json
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked["metadata"]["generation"] == 2
    answer = admin.patch(path, {"metadata": {"finalizers": ["example.com/one", "example.com/two"]}})
    assert answer.status == 422
    assert answer.causes[0]["field"] == "metadata.finalizers"
    gone = admin.patch(path, {"metadata": {"finalizers": []}})
    assert gone.status == 200
    assert admin.get(path).status == 404


def test_the_server_is_alive_and_says_its_version(api_server: Server) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = api_server.admin.get(path, accept="*/*")
        assert (answer.status, answer.body) == (200, b"ok"), path
    version = api_server.admin.get("/version").json
    assert version["major"] == "1"
    # Of one release on both servers: the embedded one says whose API it is held against.
    assert version["minor"] == "36"
    assert version["gitVersion"].startswith(f"v1.{version['minor']}.")
