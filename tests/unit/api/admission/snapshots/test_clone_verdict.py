"""Which clones enter, and how a target that nobody has named is called."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.spec_verdict import Verdict
from kvedge.resources.codec import JsonObject
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
WEB = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
TWIN = {**WEB, "name": "twin"}
PATCH = '{"op": "add", "path": "/spec/template/spec/hostname", "value": "twin"}'


def document(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "clone.kubevirt.io/v1beta1",
        "kind": "VirtualMachineClone",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"source": WEB, "target": TWIN, **spec},
    }


def verdict(written: JsonObject, old: JsonObject | None = None) -> Verdict:
    return plan_verdict(request(written, old), CLUSTER)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"source": {"apiGroup": "snapshot.kubevirt.io", "kind": "VirtualMachineSnapshot", "name": "twin"}},
        {
            "annotationFilters": ["*", "!some/key*"],
            "labelFilters": [],
            "template": {"annotationFilters": ["^a.b$"], "labelFilters": ["*"]},
            "newMacAddresses": {"default": "BE-AD-00-00-BE-04", "other": ""},
            "newSMBiosSerial": "s",
            "patches": [PATCH],
            "volumeNamePolicy": "PrefixTargetName",
        },
    ],
)
def test_clones_that_can_be_made_enter(spec: Any) -> None:
    assert verdict(document(**spec)) == Verdict()


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"source": None}, "spec.source", "Source cannot be nil"),
        ({"source": {**WEB, "apiGroup": ""}}, "spec.source.apiGroup", "Source's APIGroup cannot be empty"),
        ({"source": {**WEB, "apiGroup": "v1"}}, "spec.source.apiGroup", "is of kubevirt.io"),
        ({"source": {**WEB, "kind": "Pod"}}, "spec.source.kind", "Source kind is not supported"),
        ({"source": {**WEB, "name": ""}}, "spec.source.name", "Source's name cannot be empty"),
        ({"source": {**WEB, "name": "a/b"}}, "spec.source.name", "it is no name"),
        ({"target": {**TWIN, "kind": "Pod"}}, "spec.target.kind", "Target kind is not supported"),
        ({"target": {**TWIN, "name": "x" * 64}}, "spec.target.name", "at most 63"),
        ({"target": WEB}, "spec.target.name", "Target name cannot be equal to source name"),
        ({"labelFilters": ["!"]}, "spec.labelFilters[0]", "a negation character is not a valid filter"),
        ({"labelFilters": ["a!b"]}, "spec.labelFilters[0]", "cannot contain a negation character (!)"),
        ({"labelFilters": ["a*b"]}, "spec.labelFilters[0]", "cannot contain a wildcard character (*)"),
        ({"labelFilters": [""]}, "spec.labelFilters[0]", "it is empty"),
        ({"labelFilters": ["a("]}, "spec.labelFilters[0]", "missing closing )"),
        ({"template": {"labelFilters": ["(?=a)"]}}, "spec.template.labelFilters[0]", "Perl syntax"),
        ({"labelFilters": ["(a{30}){30}"]}, "spec.labelFilters[0]", "too large"),
        ({"labelFilters": ["a{200}"] * 3}, "spec", "too large in all"),
        ({"newMacAddresses": {"default": "x"}}, "spec.newMacAddresses[default]", "interface default has malformed MAC"),
        ({"patches": ["{"]}, "spec.patches[0]", "patch is not valid JSON ({)"),
        ({"patches": [PATCH.replace("/spec", "/status")]}, "spec.patches[0]", "patching is valid only"),
        ({"volumeNamePolicy": "InPlace"}, "spec.volumeNamePolicy", "doesn't exist"),
        ({"newMac": "x"}, "spec.newMac", "unknown field"),
        ({"newSMBiosSerial": 1}, "spec.newSMBiosSerial", ""),
    ],
)
def test_clones_that_cannot_be_made_are_refused_with_the_field(spec: Any, field: str, text: str) -> None:
    causes = verdict(document(**spec)).causes
    assert [cause.field for cause in causes] == [field]
    assert text in causes[0].message


def test_a_clone_keeps_what_it_was_made_for() -> None:
    old = document()
    assert verdict({**document(), "metadata": {"name": "c", "labels": {"a": "b"}}}, old) == Verdict()
    (cause,) = verdict(document(newSMBiosSerial="s"), old).causes
    assert cause.message == "spec in immutable after creation"


@pytest.mark.parametrize(
    "target", [None, {"apiGroup": "kubevirt.io", "kind": "VirtualMachine"}], ids=["none", "no name"]
)
def test_a_target_that_nobody_has_named_gets_a_name(target: Any) -> None:
    asked = document(source={**WEB, "name": "x" * 63})
    if target is None:
        del asked["spec"]["target"]
    else:
        asked["spec"]["target"] = target
    patches = plan_mutation(request(asked), CLUSTER, "")
    name = str(patches[0]["value"]["name"] if target is None else patches[0]["value"])
    assert name.startswith("clone-xxx")
    assert len(name) <= 63
    assert verdict({**asked, "spec": {**asked["spec"], "target": {**TWIN, "name": name}}}) == Verdict()


def test_a_target_with_a_name_keeps_it_and_what_is_no_clone_is_left() -> None:
    assert plan_mutation(request(document()), CLUSTER, "") == []
    assert plan_mutation(request({**document(), "spec": {"source": "x"}}), CLUSTER, "") == []
