"""What is too large to be judged, and that nothing below that costs more than it is long."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from kvedge.api.admission.admission_message import verdict
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.kubevirt_rules import judge_spec
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.causes import MOST_CAUSES, Cause
from kvedge.api.admission.rules.dns_names import dns_label_complaints, dns_subdomain_complaints, label_key_complaints
from kvedge.api.admission.rules.size_rules import LONGEST_KEY, MOST_LEVELS, MOST_VALUES, parts_to_judge, size_is_sane
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.builders import small_vmi, vm_of
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
NOW = "2026-01-02T03:04:05Z"


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def complaint(document: JsonObject) -> str:
    return next((cause.message for cause in size_is_sane(document)), "")


TOO_LARGE = [
    pytest.param([0] * (MOST_VALUES + 1), "there are more than 20000 values in this object", id="values"),
    pytest.param([[0] * 100] * 300, "there are more than 20000 values in this object", id="values in many lists"),
    pytest.param(nested(MOST_LEVELS + 1), "is nested deeper than 64 levels", id="levels"),
    pytest.param({"k" * (LONGEST_KEY + 1): 1}, "a key below it is longer than 317 characters", id="a key"),
]


@pytest.mark.parametrize(("value", "said"), TOO_LARGE)
def test_what_is_too_large_is_refused_for_that_alone(value: Any, said: str) -> None:
    vmi = small_vmi(domain__unheardOf=value)
    for document in (vmi, vm_of(vmi, runStrategy="Sometimes")):
        causes = plan_verdict(request(document), CLUSTER).causes
        assert [(cause.field, cause.message) for cause in causes] == [("spec", f"spec: {said}")]
        assert plan_mutation(request(document), CLUSTER, NOW) == []


@pytest.mark.parametrize(
    "value", [[0] * MOST_VALUES, nested(MOST_LEVELS), {"k" * LONGEST_KEY: 1}], ids=["values", "levels", "a key"]
)
def test_the_largest_is_judged(value: Any) -> None:
    assert complaint({"spec": value}) == ""


def test_values_are_counted_over_the_whole_object() -> None:
    half = [0] * (MOST_VALUES // 2 + 1)
    assert complaint({"spec": half}) == ""
    assert complaint({"spec": half, "metadata": half}).startswith("metadata: there are more than")


def test_the_servers_own_notes_and_the_status_are_not_counted() -> None:
    vmi = small_vmi()
    vmi["metadata"]["managedFields"] = vmi["status"] = [0] * (MOST_VALUES + 1)
    assert complaint(parts_to_judge(vmi)) == ""


def test_an_object_that_is_already_there_is_not_stuck_for_its_size() -> None:
    old = vm_of(small_vmi(domain__unheardOf=[0] * (MOST_VALUES + 1)))
    new = {**old, "metadata": {**old["metadata"], "finalizers": []}}
    assert plan_verdict(request(new, old), CLUSTER).causes == ()


def test_a_configuration_is_measured_as_well() -> None:
    document = {"kind": "KubeVirt", "metadata": {"name": "k"}, "spec": {"unheardOf": [0] * (MOST_VALUES + 1)}}
    assert [cause.field for cause in judge_spec(request(document)).causes] == ["spec"]


def test_near_names_are_looked_for_a_few_times_only() -> None:
    vmi = small_vmi()
    vmi["spec"]["domain"]["devices"] |= {f"serialconsole{index}": 0 for index in range(1000)}
    with mock.patch("difflib.get_close_matches", return_value=[]) as looked:
        assert len(plan_verdict(request(vmi), CLUSTER).causes) >= 1000
    assert looked.call_count == 10


def test_a_name_that_is_longer_than_any_of_ours_is_near_to_none() -> None:
    vmi = small_vmi()
    vmi["spec"]["domain"]["devices"]["disks" * 60] = 0
    with mock.patch("difflib.get_close_matches", return_value=[]) as looked:
        plan_verdict(request(vmi), CLUSTER)
    assert looked.call_count == 0


def test_an_answer_lists_the_first_causes_and_says_how_many_more_there_are() -> None:
    causes = [Cause(f"spec.a{index}", f"wrong {index}") for index in range(MOST_CAUSES + 7)]
    status = verdict("u", causes)["response"]["status"]
    listed = status["details"]["causes"]
    assert [cause["field"] for cause in listed] == [*(f"spec.a{index}" for index in range(MOST_CAUSES)), ""]
    assert listed[-1]["message"] == "7 more validation errors are not listed"
    assert status["message"].endswith("wrong 9, and 47 more validation errors")
    assert len(verdict("u", causes[:MOST_CAUSES])["response"]["status"]["details"]["causes"]) == MOST_CAUSES


def test_a_message_does_not_hand_back_a_megabyte() -> None:
    vmi = small_vmi(evictionStrategy="x" * (1 << 20), domain__cpu__features=[{"name": "\0" * (1 << 20), "policy": "y"}])
    for cause in plan_verdict(request(vmi), CLUSTER).causes:
        assert len(cause.message) <= 2000
        assert len(cause.field) <= 2000


def test_control_characters_are_told_of_a_few_times_only() -> None:
    vmi = small_vmi(domain__devices__channels=["\0"] * 1000)
    told = [cause for cause in plan_verdict(request(vmi), CLUSTER).causes if "U+0000" in cause.message]
    assert len(told) == 20


def test_warnings_are_a_few_only() -> None:
    vmi = small_vmi()
    vmi["metadata"]["annotations"] = {f"io.containerd.{index}": "" for index in range(1000)}
    warnings = plan_verdict(request(vmi), CLUSTER).warnings
    assert len(warnings) == 16
    assert warnings[-1] == "metadata.annotations: nor are 985 more"


def test_a_kept_status_is_one_operation() -> None:
    old, new = small_vmi(), small_vmi()
    old["status"] = {"a": [], "b": [{"x": index} for index in range(1000)]}
    new["status"] = {"a": [{"y": index} for index in range(1000)], "b": []}
    patch = plan_mutation(request(new, old), CLUSTER, NOW)
    assert patch == [{"op": "replace", "path": "/status", "value": old["status"]}]


@pytest.mark.parametrize(
    ("old", "new", "op"),
    [({"phase": "Running"}, None, "add"), (None, {"phase": "Running"}, "remove")],
    ids=["one that was taken away", "one that there was not"],
)
def test_a_status_is_kept(old: JsonObject | None, new: JsonObject | None, op: str) -> None:
    before, after = small_vmi(), small_vmi()
    for document, status in ((before, old), (after, new)):
        if status is not None:
            document["status"] = status
    assert [(each["op"], each["path"]) for each in plan_mutation(request(after, before), CLUSTER, NOW)] == [
        (op, "/status")
    ]


def test_the_status_of_a_new_vmi_is_replaced_whole() -> None:
    vmi = small_vmi()
    vmi["status"] = {f"a{index}": 0 for index in range(1000)}
    patch = plan_mutation(request(vmi), CLUSTER, NOW)
    assert [each["op"] for each in patch if each["path"].startswith("/status")] == ["replace"]


def test_volumes_are_attached_in_one_walk() -> None:
    volumes = [{"name": f"v{index}", "emptyDisk": {"capacity": "1Mi"}} for index in range(1000)]
    vmi = small_vmi(volumes=volumes, domain__devices__disks=[])
    patch = plan_mutation(request(vmi), CLUSTER, NOW)
    disks = next(each["value"] for each in patch if each["path"] == "/spec/domain/devices/disks")
    assert [disk["name"] for disk in disks] == [volume["name"] for volume in volumes]


def test_a_document_that_the_mutation_reads_is_not_changed_by_it() -> None:
    for document in (small_vmi(), vm_of(small_vmi())):
        before = copy.deepcopy(document)
        assert plan_mutation(request(document), CLUSTER, NOW) != []
        assert document == before


@pytest.mark.parametrize("judge", [dns_label_complaints, dns_subdomain_complaints, label_key_complaints])
def test_a_megabyte_is_no_name_without_being_read(judge: Callable[[str], list[str]]) -> None:
    said = judge("a" * 5000)
    assert len(said) == 2
    assert "must be no more than" in said[0]
