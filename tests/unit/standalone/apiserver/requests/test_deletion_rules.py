"""What a delete request does to an object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests.deletion_rules import (
    DeleteOptions,
    Outcome,
    check_preconditions,
    delete_options,
    is_finished,
    plan_delete,
)
from kvedge.standalone.apiserver.wire.api_errors import Conflict, Invalid

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WIDGET = ServedKind("example.com", "v1", "Widget", "widgets")
POD = ServedKind("", "v1", "Pod", "pods")
NAMESPACE = ServedKind("", "v1", "Namespace", "namespaces", namespaced=False)


def obj(**metadata: Any) -> dict[str, Any]:
    """An object with this metadata."""
    return {"metadata": {"name": "a", "uid": "u", "resourceVersion": "5", **metadata}}


def pod(grace: int | None = 30, node: str = "n", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """A Pod."""
    spec: dict[str, Any] = {"nodeName": node} if node else {}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return {**obj(**metadata), "spec": spec, "status": {"phase": phase}}


def test_an_object_that_nothing_keeps_is_removed() -> None:
    plain = obj()
    assert plan_delete(WIDGET, plain, DeleteOptions(), NOW) is Outcome.REMOVE
    assert "deletionTimestamp" not in plain["metadata"]


def test_a_finalizer_makes_it_a_mark_and_a_generation() -> None:
    kept = obj(finalizers=["x"], generation=2)
    assert plan_delete(WIDGET, kept, DeleteOptions(), NOW) is Outcome.MARK
    metadata = kept["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == ("2026-01-01T00:00:00Z", 0)
    assert metadata["generation"] == 3


def test_a_second_request_changes_nothing() -> None:
    kept = obj(finalizers=["x"])
    plan_delete(WIDGET, kept, DeleteOptions(), NOW)
    assert plan_delete(WIDGET, kept, DeleteOptions(), NOW) is Outcome.NOTHING


def test_a_marked_object_whose_finalizers_are_gone_is_removed() -> None:
    assert plan_delete(WIDGET, obj(deletionTimestamp="t", deletionGracePeriodSeconds=0), DeleteOptions(), NOW) is (
        Outcome.REMOVE
    )


@pytest.mark.parametrize(
    ("options", "phase", "node", "grace"),
    [
        (DeleteOptions(), "Running", "n", 30),
        (DeleteOptions(grace=5), "Running", "n", 5),
        (DeleteOptions(grace=-3), "Running", "n", 1),
    ],
    ids=["the Pod's own", "as asked", "negative means at once, but not by force"],
)
def test_a_pod_gets_its_time(options: DeleteOptions, phase: str, node: str, grace: int) -> None:
    marked = pod(node=node, phase=phase)
    assert plan_delete(POD, marked, options, NOW) is Outcome.MARK
    assert marked["metadata"]["deletionGracePeriodSeconds"] == grace


@pytest.mark.parametrize(
    "gone",
    [pod(node=""), pod(phase="Succeeded"), pod(phase="Failed"), pod(grace=0)],
    ids=["no node", "succeeded", "failed", "no time wanted"],
)
def test_a_pod_that_nobody_has_to_end_is_removed(gone: dict[str, Any]) -> None:
    assert plan_delete(POD, gone, DeleteOptions(), NOW) is Outcome.REMOVE


def test_a_pod_without_a_grace_period_has_thirty_seconds() -> None:
    marked = pod(grace=None)
    plan_delete(POD, marked, DeleteOptions(), NOW)
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"


def test_the_time_of_a_pod_can_be_shortened_but_not_extended() -> None:
    marked = pod()
    plan_delete(POD, marked, DeleteOptions(), NOW)
    assert plan_delete(POD, marked, DeleteOptions(grace=60), NOW) is Outcome.NOTHING
    assert plan_delete(POD, marked, DeleteOptions(), NOW) is Outcome.NOTHING
    assert plan_delete(POD, marked, DeleteOptions(grace=10), NOW) is Outcome.MARK
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:10Z"
    assert plan_delete(POD, marked, DeleteOptions(grace=0), NOW) is Outcome.REMOVE


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])],
)
def test_a_policy_that_waits_is_a_finalizer(policy: str, finalizers: list[str]) -> None:
    marked = obj()
    assert plan_delete(WIDGET, marked, DeleteOptions(policy=policy), NOW) is Outcome.MARK
    assert marked["metadata"]["finalizers"] == finalizers


def test_a_later_policy_replaces_an_earlier_one() -> None:
    marked = obj(finalizers=["x"])
    plan_delete(WIDGET, marked, DeleteOptions(policy="Foreground"), NOW)
    plan_delete(WIDGET, marked, DeleteOptions(policy="Background"), NOW)
    assert marked["metadata"]["finalizers"] == ["x"]


def test_a_namespace_waits_for_its_content() -> None:
    namespace = {**obj(), "spec": {"finalizers": ["kubernetes"]}}
    assert plan_delete(NAMESPACE, namespace, DeleteOptions(), NOW) is Outcome.MARK
    assert namespace["status"] == {"phase": "Terminating"}
    assert not is_finished(NAMESPACE, namespace)
    namespace["spec"] = {"finalizers": []}
    assert is_finished(NAMESPACE, namespace)


def test_a_marked_object_is_finished_when_nothing_is_left_to_wait_for() -> None:
    assert not is_finished(WIDGET, obj())
    assert not is_finished(WIDGET, obj(deletionTimestamp="t", finalizers=["x"]))
    assert not is_finished(POD, obj(deletionTimestamp="t", deletionGracePeriodSeconds=30))
    assert is_finished(WIDGET, obj(deletionTimestamp="t", deletionGracePeriodSeconds=0))


def test_preconditions_name_the_object_that_was_meant() -> None:
    check_preconditions(WIDGET, obj(), DeleteOptions(uid="u", resource_version="5"))
    with pytest.raises(Conflict, match=r"the UID in the precondition \(x\) does not match the UID in record \(u\)"):
        check_preconditions(WIDGET, obj(), DeleteOptions(uid="x"))
    with pytest.raises(Conflict, match="The object might have been modified"):
        check_preconditions(WIDGET, obj(), DeleteOptions(resource_version="4"))


def test_options_are_read_and_checked() -> None:
    body = {"gracePeriodSeconds": 0, "propagationPolicy": "Orphan", "preconditions": {"uid": "u"}, "dryRun": ["All"]}
    assert delete_options(body) == DeleteOptions("u", "", 0, "Orphan", True)
    assert delete_options({}) == DeleteOptions()
    assert delete_options({"orphanDependents": True}).policy == "Orphan"
    assert delete_options({"orphanDependents": False}).policy == "Background"
    with pytest.raises(Invalid) as caught:
        delete_options({"propagationPolicy": "x", "gracePeriodSeconds": "soon", "dryRun": ["Some"]})
    assert [cause["field"] for cause in caught.value.causes] == ["propagationPolicy", "gracePeriodSeconds", "dryRun"]
