"""Which webhooks a write concerns, what they are told, and how their answers are read."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.apiserver.admission.admission_protocol import Review
from kvedge.standalone.apiserver.admission.admission_rules import (
    Webhook,
    admission_review,
    denial,
    is_selected,
    matching_kind,
    webhooks_of,
)
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex, ServedKind
from kvedge.standalone.apiserver.requests.request_context import Caller, RequestContext, WriteOptions
from kvedge.standalone.apiserver.requests.request_target import RequestTarget

V1 = ServedKind("example.com", "v1", "Widget", "widgets", stored_version="example.com/v1")
V2 = ServedKind("example.com", "v2", "Widget", "widgets", stored_version="example.com/v1")
NODE = ServedKind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = ServedKind("", "v1", "Namespace", "namespaces", namespaced=False)
HOOKS = ServedKind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
KINDS = KindIndex([V1, V2, NODE, NAMESPACE, HOOKS])


def hook(**changes: Any) -> Webhook:
    """A webhook for everything of Widgets v1."""
    rule = {
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "resources": ["widgets"],
        **changes.pop("rule", {}),
    }
    return Webhook("config", {"name": "hook.example.com", "rules": [rule], **changes})


def review(kind: ServedKind = V1, operation: str = "CREATE", subresource: str = "", **parts: Any) -> Review:
    """A write of an object `a`."""
    target = RequestTarget("create", "", kind.group, kind.version, "n", kind.plural, "a", subresource)
    context = RequestContext(target, kind, Caller("joe", ("g",)), WriteOptions(field_manager="me"))
    obj = {"apiVersion": kind.api_version, "metadata": {"name": "a", **parts.pop("metadata", {})}}
    return Review(context, operation, parts.get("obj", obj), parts.get("old"), "a")


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({}, True),
        ({"operations": ["*"]}, True),
        ({"operations": ["DELETE"]}, False),
        ({"apiGroups": ["*"]}, True),
        ({"apiGroups": [""]}, False),
        ({"apiVersions": ["v3"]}, False),
        ({"resources": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["widgets/*"]}, True),
        ({"resources": ["widgets/status"]}, False),
        ({"resources": ["*/status"]}, False),
        ({"resources": ["gadgets", "widgets"]}, True),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
    ],
    ids=str,
)
def test_rules_name_what_they_are_for(rule: dict[str, Any], matches: bool) -> None:
    assert (matching_kind(hook(rule=rule), review(), KINDS) is not None) is matches


@pytest.mark.parametrize(
    ("resources", "matches"),
    [
        (["widgets"], False),
        (["*"], False),
        (["widgets/status"], True),
        (["widgets/*"], True),
        (["*/status"], True),
        (["*/*"], True),
        (["widgets/scale"], False),
    ],
    ids=str,
)
def test_a_subresource_is_meant_only_when_it_is_named(resources: list[str], matches: bool) -> None:
    found = matching_kind(hook(rule={"resources": resources}), review(subresource="status"), KINDS)
    assert (found is not None) is matches


def test_a_rule_for_one_version_means_the_others_unless_it_says_exactly() -> None:
    assert matching_kind(hook(), review(V2), KINDS) == V1
    assert matching_kind(hook(matchPolicy="Exact"), review(V2), KINDS) is None


def test_nobody_is_asked_about_the_webhooks_themselves() -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    assert matching_kind(hook(rule=rule), review(HOOKS), KINDS) is None


def test_the_namespace_is_selected_by_its_labels() -> None:
    wanted = hook(namespaceSelector={"matchLabels": {"x": "y"}})
    assert is_selected(wanted, review(), {"x": "y"})
    assert not is_selected(wanted, review(), {})
    assert is_selected(wanted, review(NODE), None)


def test_the_object_is_selected_by_its_labels_before_or_after() -> None:
    wanted = hook(objectSelector={"matchExpressions": [{"key": "x", "operator": "Exists"}]})
    labelled = {"metadata": {"labels": {"x": "y"}}}
    assert not is_selected(wanted, review(), {})
    assert is_selected(wanted, review(metadata={"labels": {"x": "y"}}), {})
    assert is_selected(wanted, review(old=labelled), {})
    assert is_selected(wanted, review(obj=None, old=labelled), {})


def test_a_webhook_is_told_who_does_what_to_what() -> None:
    request = admission_review(V1, review(V2, "UPDATE", old={"metadata": {}}), "the-uid")["request"]
    assert request["uid"] == "the-uid"
    assert request["kind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert request["requestKind"]["version"] == "v2"
    assert request["object"]["apiVersion"] == "example.com/v1"
    assert request["oldObject"] == {"metadata": {}, "apiVersion": "example.com/v1"}
    assert (request["name"], request["namespace"], request["operation"]) == ("a", "n", "UPDATE")
    assert request["userInfo"] == {"username": "joe", "uid": "", "groups": ["g"], "extra": {}}
    assert request["options"] == {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert "subResource" not in request


def test_a_namespace_is_in_itself() -> None:
    assert admission_review(NAMESPACE, review(NAMESPACE), "u")["request"]["namespace"] == "a"


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"message": "no", "code": 403}, 403, "denied the request: no"),
        ({"reason": "Busy"}, 400, "denied the request: Busy"),
        ({}, 400, "denied the request without explanation"),
        ({"message": "no", "code": 200, "status": "Success"}, 400, "denied the request: no"),
        ({"message": "no", "code": "403"}, 400, "denied the request: no"),
    ],
    ids=["with a code", "with a reason", "with nothing", "with a code of success", "with a code that is a text"],
)
def test_a_refusal_is_a_status(status: dict[str, Any], code: int, message: str) -> None:
    found = denial(hook(), {"allowed": False, "status": status})
    assert found["code"] == code
    assert found["message"] == f'admission webhook "hook.example.com" {message}'
    assert (found["kind"], found["status"]) == ("Status", "Failure")


def test_webhooks_are_called_by_the_names_of_their_configurations() -> None:
    configurations: list[dict[str, Any]] = [
        {"metadata": {"name": "b"}, "webhooks": [{"name": "3"}]},
        {"metadata": {"name": "a"}, "webhooks": [{"name": "1"}, {"name": "2"}]},
        {"metadata": {"name": "c"}},
    ]
    assert [webhook.name for webhook in webhooks_of(configurations)] == ["1", "2", "3"]
