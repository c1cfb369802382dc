"""Writes of the KubeVirt object: what is refused, what is let by with a warning."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.kubevirt_rules import judge_spec, uninstall_refusal
from kvedge.resources.codec import JsonObject

BAD = {"configuration": {"developerConfiguration": {"cpuAllocationRatio": 0}}}


def written(new: JsonObject, old: JsonObject | None = None) -> AdmissionRequest:
    before: Any = None if old is None else {"spec": old}
    return AdmissionRequest(
        uid="u", operation="CREATE" if old is None else "UPDATE", object={"spec": new}, old_object=before
    )


def test_a_value_that_cannot_be_used_is_refused_with_its_path() -> None:
    judged = judge_spec(written(BAD))
    assert [(cause.field, cause.message) for cause in judged.causes] == [
        (
            "spec.configuration.developerConfiguration.cpuAllocationRatio",
            "spec.configuration.developerConfiguration.cpuAllocationRatio: 0 is not between 1 and 1000",
        )
    ]


def test_what_is_unknown_or_has_no_effect_is_a_warning() -> None:
    judged = judge_spec(written({"imageTag": "v1", "configuration": {"cpuModell": "host-model"}}))
    assert judged.causes == ()
    assert judged.warnings == (
        'unknown field "spec.configuration.cpuModell"; did you mean "cpuModel"?',
        "spec.imageTag does not apply: kvedge is one program and writes its launcher image itself",
    )


def test_many_warnings_end_with_their_number() -> None:
    judged = judge_spec(written({f"odd{number}": 1 for number in range(40)}))
    assert len(judged.warnings) == 16
    assert judged.warnings[-1] == "and 25 more; see the object's conditions"


def test_a_change_of_something_else_is_not_refused_for_what_was_wrong_before() -> None:
    after = {**BAD, "uninstallStrategy": "RemoveWorkloads"}
    assert judge_spec(written(after, BAD)).causes == ()


def test_a_write_that_leaves_the_spec_alone_is_not_judged() -> None:
    judged = judge_spec(written(BAD, BAD))
    assert (judged.causes, judged.warnings) == ((), ())


def annotated(text: str) -> JsonObject:
    return {"metadata": {"annotations": {"kvedge.io/self-fencing": text}}, "spec": {}}


@pytest.mark.parametrize(
    ("new", "old", "refused"),
    [
        pytest.param(annotated("enabled"), None, False, id="on"),
        pytest.param(annotated("silence=90s"), annotated("enabled"), False, id="other terms"),
        pytest.param(annotated("soon"), None, True, id="made wrong"),
        pytest.param(annotated("soon"), annotated("enabled"), True, id="changed to wrong"),
        pytest.param(annotated("soon"), annotated("soon"), False, id="was wrong before"),
        pytest.param({"metadata": {"annotations": "odd"}, "spec": {}}, None, False, id="odd annotations"),
    ],
)
def test_terms_by_which_nodes_fence_themselves_must_prove_something(
    new: JsonObject, old: JsonObject | None, refused: bool
) -> None:
    judged = judge_spec(AdmissionRequest(uid="u", operation="UPDATE" if old else "CREATE", object=new, old_object=old))
    at = "metadata.annotations[kvedge.io/self-fencing]"
    assert [cause.field for cause in judged.causes] == ([at] if refused else [])
    assert all("use enabled, disabled, or terms" in cause.message for cause in judged.causes)


@pytest.mark.parametrize(
    ("word", "before", "refused"),
    [
        ("spice", None, False),
        ("vnc", "spice", False),
        ("Spice", None, True),
        ("rdp", "vnc", True),
        ("rdp", "rdp", False),
    ],
)
def test_viewers_reach_screens_by_a_word_that_there_is(word: str, before: str | None, refused: bool) -> None:
    name = "kvedge.io/graphics"
    new: JsonObject = {"metadata": {"annotations": {name: word}}, "spec": {}}
    old: JsonObject | None = None if before is None else {"metadata": {"annotations": {name: before}}, "spec": {}}
    judged = judge_spec(AdmissionRequest(uid="u", operation="UPDATE" if old else "CREATE", object=new, old_object=old))
    at = f"metadata.annotations[{name}]"
    text = f"{at}: {word!r} is not supported; use vnc or spice"
    assert [(cause.field, cause.message) for cause in judged.causes] == ([(at, text)] if refused else [])


@pytest.mark.parametrize(
    ("strategy", "workloads", "refused"),
    [
        ("BlockUninstallIfWorkloadsExist", "Virtual Machines", True),
        ("BlockUninstallIfWorkloadsExist", "", False),
        ("RemoveWorkloads", "Virtual Machines", False),
        (None, "Virtual Machines", False),
    ],
    ids=["blocked by a VM", "nothing is there", "the other strategy", "no strategy"],
)
def test_a_delete_is_refused_only_when_asked_for_and_vms_are_there(
    strategy: str | None, workloads: str, refused: bool
) -> None:
    spec = {} if strategy is None else {"uninstallStrategy": strategy}
    message = uninstall_refusal({"spec": spec}, workloads)
    assert message == (
        "Rejecting the uninstall request, since there are still Virtual Machines present. Either delete all KubeVirt"
        " related workloads or change the uninstall strategy before uninstalling KubeVirt."
        if refused
        else None
    )
