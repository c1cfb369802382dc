"""PodDisruptionBudgets: the built-in kind, judged by a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.rpc import kubernetes_pb2 as k
from kvedge.standalone.apiserver.wire.media_types import PROTOBUF
from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.test_protobuf_bodies import body
from tests.support.api_client import STRATEGIC, TABLE, Answer, ApiClient, eventually
from tests.support.protobuf_documents import filled

pytestmark = pytest.mark.contract

VERSION = "policy/v1"
_NO_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for"
    " validation is '[0-9]+%')"
)
_ZERO = "must be greater than or equal to 0"
_CONDITION = {
    "type": "DisruptionAllowed",
    "status": "True",
    "reason": "SufficientPods",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def budgets(namespace: str, name: str = "") -> str:
    return f"/apis/{VERSION}/namespaces/{namespace}/poddisruptionbudgets{f'/{name}' if name else ''}"


def budget(name: str = "b", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def causes(answer: Answer) -> list[tuple[str, str]]:
    """What is wrong: field and message of each cause."""
    assert answer.status == 422, answer.body
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        *(
            ({name: value}, f"spec.{name}", f"Invalid value: {shown}: {message}")
            for name in ("minAvailable", "maxUnavailable")
            for value, shown, message in (
                (-1, "-1", _ZERO),
                ("101%", '"101%"', "must not be greater than 100%"),
                ("x", '"x"', _NO_PERCENT),
                ("-5%", '"-5%"', _NO_PERCENT),
                ("2", '"2"', _NO_PERCENT),
                ("", '""', _NO_PERCENT),
                ("1.5%", '"1.5%"', _NO_PERCENT),
            )
        ),
        *(
            (
                {"unhealthyPodEvictionPolicy": text},
                "spec.unhealthyPodEvictionPolicy",
                f'Unsupported value: "{text}": supported values: "AlwaysAllow", "IfHealthyBudget"',
            )
            for text in ("Always", "")
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Has"}]}},
            "spec.selector.matchExpressions[0].operator",
            'Invalid value: "Has": not a valid selector operator',
        ),
        (
            {"minAvailable": 1, "maxUnavailable": "1%", "selector": {"matchLabels": {"a": "b"}}},
            "spec",
            'Invalid value: {"MinAvailable":1,"Selector":{"matchLabels":{"a":"b"}},"MaxUnavailable":"1%",'
            '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
        ),
    ],
)
def test_a_spec_is_checked(admin: ApiClient, namespace: str, spec: dict[str, Any], field: str, message: str) -> None:
    assert causes(admin.post(budgets(namespace), budget(**spec))) == [(field, message)]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"minAvailable": 0},
        {"minAvailable": "100%", "selector": {}},
        {"maxUnavailable": "0%", "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        {"maxUnavailable": 2**31 - 1},
        {"minAvailable": "050%"},
    ],
)
def test_a_spec_that_makes_sense_is_taken_as_it_is(admin: ApiClient, namespace: str, spec: dict[str, Any]) -> None:
    made = admin.made(budgets(namespace), {**budget(**spec), "status": {"currentHealthy": 9}})
    assert (made["spec"], made["metadata"]["generation"]) == (spec, 1)
    counts = dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0)
    assert made["status"] == counts


def test_a_change_of_the_spec_is_counted_and_a_selector_replaced(admin: ApiClient, namespace: str) -> None:
    admin.made(budgets(namespace), budget(minAvailable=1, selector={"matchLabels": {"a": "b"}}))
    changed = admin.patch(budgets(namespace, "b"), {"spec": {"minAvailable": 2}}).json
    assert (changed["spec"]["minAvailable"], changed["metadata"]["generation"]) == (2, 2)
    other = {"spec": {"selector": {"matchLabels": {"c": "d"}}}}
    assert admin.patch(budgets(namespace, "b"), other, STRATEGIC).json["spec"]["selector"] == other["spec"]["selector"]
    assert admin.delete(budgets(namespace, "b")).json["status"] == "Success"


def test_a_status_is_checked_and_comes_alone_but_for_labels(admin: ApiClient, namespace: str) -> None:
    admin.made(budgets(namespace), budget(minAvailable=1))
    status = f"{budgets(namespace, 'b')}/status"
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    refused = admin.patch(status, {"status": dict.fromkeys(counts, -1)})
    assert causes(refused) == [(f"status.{name}", f"Invalid value: -1: {_ZERO}") for name in counts]
    wanted = {"metadata": {"labels": {"x": "y"}}, "spec": {"minAvailable": 5}, "status": {"conditions": [_CONDITION]}}
    written = admin.patch(status, wanted)
    assert written.status == 200, written.message
    assert written.json["metadata"]["labels"] == {"x": "y"}
    assert written.json["spec"] == {"minAvailable": 1}
    assert written.json["status"]["conditions"] == [_CONDITION]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"status": "Maybe"}, {"status": 'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"'}),
        ({"reason": ""}, {"reason": "Required value"}),
        ({"lastTransitionTime": None}, {"lastTransitionTime": "Required value"}),
        (
            {"observedGeneration": -1},
            {"observedGeneration": "Invalid value: -1: must be greater than or equal to zero"},
        ),
        ({"reason": "a b"}, {"reason": "a condition reason must start with alphabetic character"}),
        ({"type": "a b"}, {"type": "name part must consist of alphanumeric characters"}),
        ({"message": "x" * 32769}, {"message": "32768"}),
    ],
)
def test_conditions_are_checked(
    admin: ApiClient, namespace: str, condition: dict[str, Any], found: dict[str, str]
) -> None:
    admin.made(budgets(namespace), budget())
    answer = admin.patch(f"{budgets(namespace, 'b')}/status", {"status": {"conditions": [{**_CONDITION, **condition}]}})
    ((field, message),) = causes(answer)
    ((name, words),) = found.items()
    assert field == f"status.conditions[0].{name}"
    assert words in message


def test_a_table_shows_what_is_allowed(admin: ApiClient, namespace: str) -> None:
    admin.made(budgets(namespace), budget("a", minAvailable="50%"))
    admin.made(budgets(namespace), budget("b", maxUnavailable=1))
    table = admin.get(budgets(namespace), accept=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Min Available",
        "Max Unavailable",
        "Allowed Disruptions",
        "Age",
    ]
    assert [row["cells"][:4] for row in table["rows"]] == [["a", "50%", "N/A", 0], ["b", "N/A", "1", 0]]


def test_a_budget_in_protobuf_is_the_same_as_in_json(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    spec = {
        "minAvailable": "50%",
        "selector": {"matchLabels": {"a": "b"}},
        "unhealthyPodEvictionPolicy": "IfHealthyBudget",
    }
    message = filled(k.PodDisruptionBudget(), {"metadata": {"name": "b"}, "spec": spec})
    sent = body(message.SerializeToString(), "PodDisruptionBudget", VERSION)
    made = admin.ask("POST", budgets(namespace), sent, PROTOBUF)
    assert made.status == 201, made.message
    assert made.json["spec"] == spec
    status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    whole = {**status, "observedGeneration": 1, "disruptedPods": {"p": None}, "conditions": [_CONDITION]}
    moment = k.PodDisruptionBudgetStatus(observedGeneration=1, **status)
    moment.disruptedPods["p"].seconds = 1767225600
    moment.conditions.add(type="DisruptionAllowed", status="True", reason="SufficientPods", message="")
    moment.conditions[0].lastTransitionTime.seconds = 1767225600
    message.status.CopyFrom(moment)
    if not api_server.is_real:
        # The embedded API counts it once; from then on nothing changes it but this test.
        eventually(lambda: "observedGeneration" in admin.get(budgets(namespace, "b")).json["status"])
    message.metadata.resourceVersion = admin.get(budgets(namespace, "b")).json["metadata"]["resourceVersion"]
    sent = body(message.SerializeToString(), "PodDisruptionBudget", VERSION)
    written = admin.ask("PUT", f"{budgets(namespace, 'b')}/status", sent, PROTOBUF)
    assert written.status == 200, written.message
    assert written.json["status"] == {**whole, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}}
