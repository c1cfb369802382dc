"""Webhooks: who is asked what, what they may change, and what happens when they refuse or cannot be reached."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.hooks import ADMISSION, Hook, Registrar, denies
from tests.support.api_client import Answer, ApiClient, eventually
from tests.support.https_backend import HttpsBackend
from tests.support.widgets import config_map, config_maps, widget, widgets

pytestmark = pytest.mark.contract


def test_a_webhook_is_told_all_about_the_write(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register()
    admin.made(widgets(namespace), widget("a", 1))
    admin.patch(widgets(namespace, "a"), {"spec": {"size": 2}})
    admin.delete(widgets(namespace, "a"))
    create, update, delete = hook.reviews
    assert create["operation"] == "CREATE"
    assert create["kind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert create["resource"] == {"group": "example.com", "version": "v1", "resource": "widgets"}
    assert (create["name"], create["namespace"]) == ("a", namespace)
    assert create["userInfo"]["username"] == "admin"
    assert set(create["userInfo"]["groups"]) == {"system:masters", "system:authenticated"}
    assert create["object"]["spec"] == {"size": 1, "color": "red"}
    assert create["object"]["metadata"]["uid"]
    assert create["oldObject"] is None
    assert create["dryRun"] is False
    assert create["options"]["kind"] == "CreateOptions"
    assert (update["operation"], update["object"]["spec"]["size"], update["oldObject"]["spec"]["size"]) == (
        "UPDATE",
        2,
        1,
    )
    assert (delete["operation"], delete["object"], delete["oldObject"]["spec"]["size"]) == ("DELETE", None, 2)


def test_a_refusal_reaches_the_user_in_the_webhooks_words(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register()
    causes = [{"reason": "FieldValueInvalid", "message": "too big", "field": "spec.size"}]
    status = {"message": "no room", "reason": "Invalid", "code": 422, "details": {"causes": causes}}
    hook.decide = lambda request: {"allowed": False, "status": status}
    answer = admin.post(widgets(namespace), widget("a"))
    assert answer.status == 422
    assert answer.message == 'admission webhook "hook.example.com" denied the request: no room'
    assert answer.json["reason"] == "Invalid"
    assert answer.causes == causes
    assert admin.get(widgets(namespace, "a")).status == 404
    hook.decide = lambda request: {"allowed": False}
    bare = admin.post(widgets(namespace), widget("a"))
    assert bare.status == 400
    assert bare.message == 'admission webhook "hook.example.com" denied the request without explanation'


def test_updates_and_deletes_can_be_refused_too(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register()
    admin.made(widgets(namespace), widget("a", 1))
    hook.decide = denies("it stays")
    assert admin.patch(widgets(namespace, "a"), {"spec": {"size": 2}}).status == 403
    assert admin.delete(widgets(namespace, "a")).status == 403
    assert admin.get(widgets(namespace, "a")).json["spec"]["size"] == 1


def test_a_mutating_webhook_changes_the_object(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register("Mutating")

    def patch(request: dict[str, Any]) -> dict[str, Any]:
        steps = [
            {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}},
            {"op": "replace", "path": "/spec/size", "value": 9},
            {"op": "add", "path": "/spec/unknown", "value": 1},
        ]
        encoded = base64.b64encode(json.dumps(steps).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    hook.decide = patch
    made = admin.made(widgets(namespace), widget("a", 1))
    assert made["metadata"]["labels"] == {"seen": "yes"}
    assert made["spec"] == {"size": 9, "color": "red"}


def test_what_a_mutating_webhook_makes_is_validated(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register("Mutating")
    steps = base64.b64encode(json.dumps([{"op": "replace", "path": "/spec/size", "value": 99}]).encode()).decode()
    hook.decide = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": steps}
    answer = admin.post(widgets(namespace), widget("a", 1))
    assert answer.status == 422
    assert answer.causes[0]["field"] == "spec.size"


def test_warnings_of_a_webhook_reach_the_user(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register()
    hook.decide = lambda request: {"allowed": True, "warnings": ["mind the step"]}
    answer = admin.post(widgets(namespace), widget("a"))
    assert answer.headers["Warning"] == '299 - "mind the step"'


def test_a_webhook_that_cannot_be_reached_refuses_or_is_ignored(
    api_server: Server, namespace: str, hook: Hook, register: Registrar
) -> None:
    admin = api_server.admin
    dead = {"url": "https://127.0.0.1:1/", "caBundle": hook.backend.ca_bundle}
    register(clientConfig=dead, failurePolicy="Fail")

    def refused() -> Answer | None:
        answer = admin.post(widgets(namespace), widget("a"), dryRun="All")
        return answer if answer.status != 201 else None

    answer = eventually(refused)
    assert answer.status == 500
    assert answer.json["reason"] == "InternalError"
    assert answer.message.startswith('Internal error occurred: failed calling webhook "hook.example.com": ')


def test_a_failing_webhook_may_be_ignored(admin: ApiClient, namespace: str, hook: Hook, register: Registrar) -> None:
    register(failurePolicy="Ignore")
    hook.decide = lambda request: {"uid": "another", "allowed": False}
    assert admin.post(widgets(namespace), widget("a")).status == 201
    assert hook.reviews


def test_a_webhook_of_an_unknown_authority_is_not_believed(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar, tmp_path: Path
) -> None:
    other = HttpsBackend(tmp_path / "other", hook._serve, "127.0.0.1", ["127.0.0.1"])
    register(clientConfig={"url": hook.url, "caBundle": other.ca_bundle})
    answer = eventually(lambda: _unless_created(admin.post(widgets(namespace), widget("a"), dryRun="All")))
    assert answer.status == 500
    assert "certificate" in answer.message
    assert not hook.reviews


def _unless_created(answer: Answer) -> Answer | None:
    return answer if answer.status != 201 else None


def test_selectors_decide_who_is_asked(admin: ApiClient, namespace: str, hook: Hook, register: Registrar) -> None:
    register(objectSelector={"matchLabels": {"ask": "yes"}})
    chosen = config_map("probe", labels={"ask": "yes"})
    eventually(lambda: admin.post(config_maps(namespace), chosen, dryRun="All") and hook.reviews)
    hook.reviews.clear()
    admin.made(config_maps(namespace), config_map("a"))
    admin.made(
        "/api/v1/namespaces/default/configmaps",
        {**chosen, "metadata": {"generateName": "x-", "labels": {"ask": "yes"}}},
    )
    assert not hook.reviews
    admin.made(config_maps(namespace), config_map("b", labels={"ask": "yes"}))
    assert [review["name"] for review in hook.reviews] == ["b"]


def test_subresources_are_asked_for_by_their_own_rule(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    rule = {
        "operations": ["UPDATE"],
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "resources": ["widgets/status"],
    }
    whole = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    register(rules=[rule, whole])
    admin.made(widgets(namespace), widget("a"))
    admin.patch(widgets(namespace, "a"), {"spec": {"size": 2}})
    assert not hook.reviews
    admin.patch(widgets(namespace, "a") + "/status", {"status": {"phase": "Up"}})
    assert [review["subResource"] for review in hook.reviews] == ["status"]


def test_another_version_is_shown_in_the_one_that_the_rule_names(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register()
    admin.made(widgets(namespace, version="v1alpha1"), widget("a", version="v1alpha1"))
    review = hook.reviews[0]
    assert review["kind"]["version"] == "v1"
    assert review["object"]["apiVersion"] == "example.com/v1"
    assert review["requestKind"]["version"] == "v1alpha1"


def test_a_webhook_is_found_through_its_service(
    api_server: Server, namespace: str, hook: Hook, register: Registrar
) -> None:
    admin = api_server.admin
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": hook.port}]},
    }
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "hook"},
        "subsets": [{"addresses": [{"ip": hook.address}], "ports": [{"name": "https", "port": hook.port}]}],
    }
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [hook.address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": hook.port, "protocol": "TCP"}],
    }
    made: dict[str, dict[str, Any]] = {
        "/api/v1/namespaces/default/services": service,
        "/api/v1/namespaces/default/endpoints": endpoints,
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": slices,
    }
    for path, body in made.items():
        admin.made(path, body)
    try:
        config = {"service": {"namespace": "default", "name": "hook", "path": "/x"}, "caBundle": hook.backend.ca_bundle}
        register(clientConfig=config)
        eventually(lambda: admin.post(widgets(namespace), widget("p"), dryRun="All").status == 201 and hook.reviews)
        hook.decide = denies("found")
        assert admin.post(widgets(namespace), widget("a")).status == 403
    finally:
        for path, body in made.items():
            admin.delete(f"{path}/{body['metadata']['name']}")


def test_a_configuration_that_makes_no_sense_is_refused(admin: ApiClient) -> None:
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "wrong"},
        "webhooks": [
            {
                "name": "hook.example.com",
                "clientConfig": {},
                "sideEffects": "Unknown",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 90,
            }
        ],
    }
    answer = admin.post(f"{ADMISSION}/validatingwebhookconfigurations", body)
    assert answer.status == 422
    fields = {cause["field"] for cause in answer.causes}
    assert {"webhooks[0].clientConfig", "webhooks[0].sideEffects", "webhooks[0].timeoutSeconds"} <= fields
