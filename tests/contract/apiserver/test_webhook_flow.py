"""Webhooks together: in which order, how often, for how long, under which conditions, and what a dry run may reach."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.hooks import Hook, Registrar, patches
from tests.support.api_client import APPLY, ApiClient, eventually
from tests.support.widgets import config_map, config_maps, widget, widgets

pytestmark = pytest.mark.contract


def label(name: str) -> dict[str, Any]:
    """A step that sets a label."""
    return {"op": "add", "path": f"/metadata/labels/{name}", "value": "yes"}


def labelled(name: str) -> dict[str, Any]:
    """A ConfigMap that has labels."""
    return config_map(name, labels={"begun": "yes"})


def asked(hook: Hook) -> list[str]:
    """Which webhooks were asked, in order."""
    return [review["path"] for review in hook.reviews]


def test_mutating_webhooks_are_asked_in_order_and_see_what_those_before_them_did(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    # By the names of the configurations, and within one as they stand there.
    register.put("Mutating", [register.entry("third", name="a.example.com")], "z-later")
    register.put(
        "Mutating",
        [register.entry("first", name="z.example.com"), register.entry("second", name="b.example.com")],
        "a-earlier",
    )
    register.wait(3)
    hook.decide = lambda review: patches(label(review["path"]))
    made = admin.made(config_maps(namespace), labelled("x"))
    assert asked(hook) == ["first", "second", "third"]
    seen = [set(review["object"]["metadata"]["labels"]) - {"begun"} for review in hook.reviews]
    assert seen == [set(), {"first"}, {"first", "second"}]
    assert set(made["metadata"]["labels"]) == {"begun", "first", "second", "third"}


def test_a_webhook_that_wants_to_is_asked_again_after_later_changes_and_only_then(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register.put(
        "Mutating",
        [
            register.entry("again", name="a.example.com", reinvocationPolicy="IfNeeded"),
            register.entry("once", name="b.example.com", reinvocationPolicy="Never"),
            register.entry("later", name="c.example.com"),
        ],
    )
    register.wait(3)
    admin.made(config_maps(namespace), labelled("unchanged"))
    assert asked(hook) == ["again", "once", "later"]
    hook.reviews.clear()

    def decide(review: dict[str, Any]) -> dict[str, Any]:
        if review["path"] == "later":
            return patches(label("later"))
        if review["path"] == "again" and "later" in review["object"]["metadata"]["labels"]:
            return patches(label("last"))
        return {"allowed": True}

    hook.decide = decide
    made = admin.made(config_maps(namespace), labelled("changed"))
    assert asked(hook) == ["again", "once", "later", "again"]
    assert {"later", "last"} <= set(made["metadata"]["labels"])


def test_validating_webhooks_see_the_end_result_and_each_may_refuse(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register.put("Mutating", [register.entry("mutate", name="a.example.com")])
    register.put(
        "Validating",
        [register.entry("one", name="a.example.com"), register.entry("two", name="b.example.com")],
    )
    register.wait(3)

    def decide(review: dict[str, Any]) -> dict[str, Any]:
        if review["path"] == "mutate":
            return patches(label("mutated"))
        return {"allowed": review["path"] != "two", "status": {"message": "not by two"}}

    hook.decide = decide
    answer = admin.post(config_maps(namespace), labelled("x"))
    assert answer.status == 400
    assert 'admission webhook "b.example.com" denied the request: not by two' in answer.message
    validated = [review for review in hook.reviews if review["path"] != "mutate"]
    assert all("mutated" in review["object"]["metadata"]["labels"] for review in validated)
    assert admin.get(config_maps(namespace, "x")).status == 404


def test_a_webhook_refuses_before_a_name_is_found_taken_or_a_version_unwanted(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    made = admin.made(config_maps(namespace), labelled("x"))
    register.put("Validating", [register.entry("one", name="a.example.com")])
    register.wait(1)
    hook.decide = lambda review: {"allowed": False, "status": {"message": "not this"}}
    answer = admin.post(config_maps(namespace), made)
    assert 'admission webhook "a.example.com" denied the request: not this' in answer.message
    hook.decide = lambda review: {"allowed": True}
    assert admin.post(config_maps(namespace), made).message == (
        "resourceVersion should not be set on objects to be created"
    )
    assert admin.post(config_maps(namespace), labelled("x")).status == 409


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
def test_a_webhook_that_takes_too_long_refuses_or_is_ignored(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar, policy: str, status: int
) -> None:
    register(failurePolicy=policy, timeoutSeconds=1)
    hook.delay = 3.0
    answer = admin.post(config_maps(namespace), config_map("x"))
    assert answer.status == status, answer.body
    if status == 500:
        assert 'failed calling webhook "hook.example.com"' in answer.message
        assert "deadline" in answer.message


def test_a_webhook_with_side_effects_is_not_asked_in_a_dry_run(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    register.put(
        "Validating",
        [register.entry("effects", sideEffects="NoneOnDryRun"), register.entry("none", name="b.example.com")],
    )
    register.wait(2)
    assert admin.post(config_maps(namespace), config_map("x"), dryRun="All").status == 201
    assert {review["path"]: review["dryRun"] for review in hook.reviews} == {"effects": True, "none": True}
    assert admin.post(config_maps(namespace), config_map("x")).status == 201
    assert hook.reviews[-1]["dryRun"] is False


def test_conditions_decide_whether_a_webhook_is_asked(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    conditions = [
        {"name": "not the controller", "expression": "request.userInfo.username != 'system:controller'"},
        {"name": "big ones", "expression": "request.operation == 'DELETE' || object.metadata.name.startsWith('big')"},
    ]
    named = [{**condition, "name": condition["name"].replace(" ", "-")} for condition in conditions]
    register.put(
        "Validating", [register.entry("all", name="a.example.com"), register.entry("big", matchConditions=named)]
    )
    register.wait(1)
    admin.made(config_maps(namespace), config_map("small"))
    assert asked(hook) == ["all"]
    hook.reviews.clear()
    admin.made(config_maps(namespace), config_map("big-one"))
    assert sorted(asked(hook)) == ["all", "big"]
    hook.reviews.clear()
    admin.delete(config_maps(namespace, "small"))
    assert sorted(asked(hook)) == ["all", "big"]


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
def test_a_condition_that_cannot_be_evaluated_is_a_failure_of_the_webhook(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar, policy: str, status: int
) -> None:
    condition = {"name": "absent", "expression": "object.spec.nothing.here == 'x'"}
    register.put(
        "Validating",
        [
            register.entry("all", name="a.example.com"),
            register.entry("odd", name="odd.example.com", matchConditions=[condition], failurePolicy=policy),
        ],
    )
    if status == 201:
        register.wait(1)
    else:
        # Nobody is asked, so that only the refusal says that the webhooks are known.
        eventually(lambda: admin.post(config_maps(namespace), config_map("probe"), dryRun="All").status != 201)
    answer = admin.post(config_maps(namespace), config_map("x"))
    assert answer.status in (status, 403), answer.body
    assert "odd" not in asked(hook)


def test_the_selector_of_namespaces_is_that_of_the_objects_namespace(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar
) -> None:
    expression = {"key": "ask", "operator": "In", "values": ["yes", "always"]}
    register.put(
        "Validating",
        [
            register.entry("all", name="a.example.com"),
            register.entry("some", namespaceSelector={"matchExpressions": [expression]}),
        ],
    )
    register.wait(1)
    admin.made(config_maps(namespace), config_map("before"))
    assert asked(hook) == ["all"]
    hook.reviews.clear()
    assert admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"ask": "always"}}}).status == 200
    register.wait(2)
    admin.made(config_maps(namespace), config_map("after"))
    assert sorted(asked(hook)) == ["all", "some"]


def test_every_way_to_write_is_seen(api_server: Server, namespace: str, hook: Hook, register: Registrar) -> None:
    admin = api_server.admin
    register()
    path = widgets(namespace, "w")
    admin.made(widgets(namespace), widget("w", 1))
    admin.put(
        path,
        {
            **widget("w", 2),
            "metadata": {"name": "w", "resourceVersion": admin.get(path).json["metadata"]["resourceVersion"]},
        },
    )
    admin.patch(path, {"spec": {"size": 3}})
    applied = widget("w", 4)
    assert admin.patch(path, applied, APPLY, fieldManager="m", force="true").status == 200
    assert admin.patch(widgets(namespace, "new"), widget("new", 1), APPLY, fieldManager="m").status == 201
    assert admin.delete(widgets(namespace), labelSelector="!nothing").status == 200
    # A kube-apiserver leaves the name out when a collection is deleted.
    asked_for = (
        (
            review["operation"],
            (review["object"] or review["oldObject"])["metadata"]["name"],
            (review["object"] or {}).get("spec", {}).get("size"),
        )
        for review in hook.reviews
    )
    # It asks once more for a change that it made to an old copy of the object.
    seen = [each for each, _ in groupby(asked_for)]
    assert seen[:5] == [
        ("CREATE", "w", 1),
        ("UPDATE", "w", 2),
        ("UPDATE", "w", 3),
        ("UPDATE", "w", 4),
        ("CREATE", "new", 1),
    ]
    assert sorted(seen[5:]) == [("DELETE", "new", None), ("DELETE", "w", None)]


def test_an_answer_may_be_large(admin: ApiClient, namespace: str, hook: Hook, register: Registrar) -> None:
    register("Mutating")
    text = "x" * 700_000
    hook.decide = lambda review: patches({"op": "add", "path": "/data", "value": {"text": text}})
    made = admin.made(config_maps(namespace), config_map("x"))
    assert made["data"] == {"text": text}


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"no json", b"[" * 100_000, b'{"response":7}', b"\xff"])
def test_an_answer_that_is_none_is_a_failure_and_no_crash(
    admin: ApiClient, namespace: str, hook: Hook, register: Registrar, answer: bytes
) -> None:
    register()
    hook.raw = answer
    refused = admin.post(config_maps(namespace), config_map("x"))
    assert refused.status == 500
    assert 'failed calling webhook "hook.example.com"' in refused.message
