"""Evictions and PodDisruptionBudgets, judged by a real kube-apiserver.

A kube-apiserver alone has no disruption controller: for it the test writes the status that the embedded API finds.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server, new_namespace
from tests.contract.apiserver.test_disruption_budgets import budget, budgets
from tests.support.api_client import Answer, ApiClient, eventually
from tests.support.widgets import pod, pods

pytestmark = pytest.mark.contract

VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
SHOP = {"matchLabels": {"app": "shop"}}


def run_pod(
    admin: ApiClient, namespace: str, name: str, *, ready: bool = True, phase: str = "Running", **spec: Any
) -> None:
    """A Pod of the shop, as its node's agent would say of it."""
    document = pod(name, **spec)
    document["metadata"]["labels"] = {"app": "shop"}
    admin.made(pods(namespace), document)
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    assert admin.patch(f"{pods(namespace, name)}/status", {"status": status}).status == 200


def evict(admin: ApiClient, namespace: str, name: str, options: Any = None, **query: str) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    return admin.post(f"{pods(namespace, name)}/eviction", {**body, "deleteOptions": options}, **query)


def counted(server: Server, namespace: str, allowed: int, healthy: int, desired: int, expected: int) -> None:
    """Have the budget `b` counted, and see that it was counted like this."""
    counts = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    path = budgets(namespace, "b")
    if server.is_real:
        generation = server.admin.get(path).json["metadata"]["generation"]
        status = {**counts, "observedGeneration": generation}
        assert server.admin.patch(f"{path}/status", {"status": status}).status == 200
    eventually(lambda: counts.items() <= server.admin.get(path).json["status"].items())


def refusal(answer: Answer) -> str:
    """Why an eviction was refused: the message of its one cause."""
    assert (answer.status, answer.json["reason"], answer.message) == (429, "TooManyRequests", VIOLATED), answer.body
    (cause,) = answer.json["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    return str(cause["message"])


def test_an_eviction_that_would_violate_a_budget_is_refused(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    run_pod(admin, namespace, "p")
    admin.made(budgets(namespace), budget(minAvailable=1, selector=SHOP))
    counted(api_server, namespace, 0, 1, 1, 1)
    answer = evict(admin, namespace, "p")
    assert refusal(answer) == "The disruption budget b needs 1 healthy pods and has 1 currently"
    assert "retryAfterSeconds" not in answer.json["details"]
    assert "deletionTimestamp" not in admin.get(pods(namespace, "p")).json["metadata"]
    assert admin.delete(budgets(namespace, "b")).status == 200
    assert evict(admin, namespace, "p").status == 201


def test_an_eviction_takes_from_the_budget(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    for name in ("p1", "p2"):
        run_pod(admin, namespace, name)
    admin.made(budgets(namespace), budget(minAvailable=1, selector=SHOP))
    counted(api_server, namespace, 1, 2, 1, 2)
    for options, query in (({"dryRun": ["All"]}, {}), (None, {"dryRun": "All"})):
        assert evict(admin, namespace, "p1", options, **query).status == 201
    assert admin.get(budgets(namespace, "b")).json["status"]["disruptionsAllowed"] == 1
    answer = evict(admin, namespace, "p1")
    assert (answer.status, answer.json["status"]) == (201, "Success")
    assert admin.get(pods(namespace, "p1")).status == 404
    assert admin.get(budgets(namespace, "b")).json["status"]["disruptionsAllowed"] == 0
    assert refusal(evict(admin, namespace, "p2")).startswith("The disruption budget b ")


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_goes_whatever_its_budget_says(api_server: Server, namespace: str, phase: str) -> None:
    run_pod(api_server.admin, namespace, "p", phase=phase, ready=False)
    api_server.admin.made(budgets(namespace), budget(minAvailable=5, selector=SHOP))
    assert evict(api_server.admin, namespace, "p").status == 201
    assert api_server.admin.get(pods(namespace, "p")).status == 404


@pytest.mark.parametrize(
    ("ready_beside", "policy", "goes"),
    [
        pytest.param(True, None, True, id="enough are healthy"),
        pytest.param(False, None, False, id="too few are healthy"),
        pytest.param(False, "IfHealthyBudget", False, id="too few are healthy, said in words"),
        pytest.param(False, "AlwaysAllow", True, id="it does not matter"),
    ],
)
def test_a_pod_that_is_not_ready_goes_as_the_policy_says(
    api_server: Server, namespace: str, ready_beside: bool, policy: str | None, goes: bool
) -> None:
    admin = api_server.admin
    run_pod(admin, namespace, "sick", ready=False)
    run_pod(admin, namespace, "beside", ready=ready_beside)
    more = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    admin.made(budgets(namespace), budget(minAvailable=1, selector=SHOP, **more))
    counted(api_server, namespace, 0, int(ready_beside), 1, 2)
    answer = evict(admin, namespace, "sick")
    if goes:
        assert answer.status == 201, answer.message
    else:
        assert refusal(answer) == "The disruption budget b needs 1 healthy pods and has 0 currently"


def test_several_budgets_for_a_pod_are_an_error(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    run_pod(admin, namespace, "p")
    for name in ("a", "b"):
        admin.made(budgets(namespace), budget(name, maxUnavailable=1, selector=SHOP))
    answer = evict(admin, namespace, "p")
    assert answer.json["status"] == "Failure"
    assert answer.json["code"] == 500
    assert answer.message.startswith("This pod has more than one PodDisruptionBudget")
    assert admin.get(pods(namespace, "p")).status == 200


def test_an_empty_selector_chooses_all_and_none_chooses_nobody(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    run_pod(admin, namespace, "p")
    admin.made(budgets(namespace), budget("nobody", minAvailable=1))
    assert evict(admin, namespace, "p", {"dryRun": ["All"]}).status == 201
    admin.made(budgets(namespace), budget(minAvailable=1, selector={}))
    counted(api_server, namespace, 0, 1, 1, 1)
    assert evict(admin, namespace, "p").status == 429


def test_a_budget_of_another_namespace_means_nothing(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    run_pod(admin, namespace, "p")
    admin.made(budgets(new_namespace(admin)), budget(minAvailable=1, selector=SHOP))
    assert evict(admin, namespace, "p").status == 201


def test_a_budget_of_the_embedded_api_is_counted_by_itself(embedded_server: Server) -> None:
    admin = embedded_server.admin
    namespace = new_namespace(admin)
    admin.made(budgets(namespace), budget(minAvailable="50%", selector=SHOP))
    counted(embedded_server, namespace, 0, 0, 0, 0)
    for name in ("p1", "p2", "p3"):
        run_pod(admin, namespace, name)
    counted(embedded_server, namespace, 1, 3, 2, 3)
    (condition,) = admin.get(budgets(namespace, "b")).json["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "True",
        "SufficientPods",
    )
    admin.patch(f"{pods(namespace, 'p1')}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    counted(embedded_server, namespace, 0, 2, 2, 3)
    admin.patch(budgets(namespace, "b"), {"spec": {"minAvailable": None, "maxUnavailable": 2}})
    counted(embedded_server, namespace, 1, 2, 1, 3)
    assert admin.get(budgets(namespace, "b")).json["status"]["observedGeneration"] == 2
    assert evict(admin, namespace, "p2").status == 201
    # It expects as many as there are: one fewer now.
    counted(embedded_server, namespace, 1, 1, 0, 2)
    assert evict(admin, namespace, "p3").status == 201
