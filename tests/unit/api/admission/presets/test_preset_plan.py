"""What VMIs get of presets, and which presets contradict each other."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.presets.preset_plan import Preset, preset_conflicts, with_presets
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from kvedge.resources.label_selectors import selector_of
from kvedge.resources.meta import LabelSelector
from tests.support.builders import small_vmi
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
NOW = "2026-01-02T03:04:05Z"
ANNOTATION = "virtualmachinepreset.kubevirt.io/"


def preset(name: str = "small", label: str = "web", **domain: Any) -> Preset:
    return Preset(name, selector_of(LabelSelector(match_labels={"app": label})), domain)


def vmi(**domain: Any) -> JsonObject:
    document = small_vmi()
    document["metadata"]["labels"] = {"app": "web"}
    document["spec"]["domain"] |= domain
    return document


def agreed(document: JsonObject) -> list[str]:
    annotations = document["metadata"].get("annotations", {})
    assert {value for name, value in annotations.items() if name.startswith(ANNOTATION)} <= {"kubevirt.io/v1"}
    return sorted(name.removeprefix(ANNOTATION) for name in annotations if name.startswith(ANNOTATION))


WATCHDOG = {"name": "w", "i6300esb": {"action": "reset"}}


@pytest.mark.parametrize(
    "part",
    [
        {"cpu": {"cores": 7}},
        {"firmware": {"serial": "s"}},
        {"features": {"acpi": {"enabled": False}}},
        {"ioThreadsPolicy": "auto"},
        {"resources": {"requests": {"memory": "128M"}}},
        {"clock": {"utc": {"offsetSeconds": 60}, "timer": {"hpet": {"present": False}}}},
        {"devices": {"watchdog": WATCHDOG}},
    ],
    ids=lambda part: next(iter(part)),
)
def test_a_part_that_the_vmi_lacks_is_brought_and_the_vmi_says_so(part: JsonObject) -> None:
    before = vmi()
    made = with_presets(copy.deepcopy(before), [preset(**part)])
    assert agreed(made) == ["small"]
    expected = copy.deepcopy(before["spec"]["domain"])
    for name, value in part.items():
        expected[name] = {**expected[name], **value} if name == "devices" else value
    assert made["spec"]["domain"] == expected


@pytest.mark.parametrize(
    ("own", "part"),
    [
        ({"cpu": {"cores": 2}}, {"cpu": {"cores": 7}}),
        ({"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"memory": "128M"}}}),
        ({"ioThreadsPolicy": "shared"}, {"ioThreadsPolicy": "auto"}),
        ({}, {"memory": {"guest": "1Gi"}}),
    ],
    ids=["another value", "other requests", "another word", "a part that presets do not bring"],
)
def test_what_the_vmi_says_itself_stays_and_it_does_not_agree(own: JsonObject, part: JsonObject) -> None:
    document = vmi(**own)
    assert with_presets(document, [preset(**part)]) == document


def test_a_vmi_agrees_with_a_preset_that_says_the_same_in_other_words() -> None:
    document = vmi(cpu={"cores": 7, "sockets": 0})
    made = with_presets(document, [preset(cpu={"cores": 7})])
    assert agreed(made) == ["small"]
    assert made["spec"] == document["spec"]


def test_timers_come_to_a_clock_that_has_none_and_its_offset_stays() -> None:
    made = with_presets(
        vmi(clock={"timezone": "Europe/Berlin"}), [preset(clock={"utc": {}, "timer": {"hpet": {"present": True}}})]
    )
    assert made["spec"]["domain"]["clock"] == {"timezone": "Europe/Berlin", "timer": {"hpet": {"present": True}}}
    assert agreed(made) == ["small"]


def test_a_null_counts_as_nothing() -> None:
    made = with_presets(vmi(cpu=None, resources=None), [preset(cpu={"cores": 7}, resources={"requests": {"cpu": "1"}})])
    assert made["spec"]["domain"]["cpu"] == {"cores": 7}
    assert made["spec"]["domain"]["resources"] == {"requests": {"cpu": "1"}}


def test_presets_for_other_labels_and_vmis_that_exclude_themselves_are_left_alone() -> None:
    document = vmi()
    assert with_presets(document, [preset(label="db", cpu={"cores": 7})]) == document
    marking = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"
    document["metadata"]["annotations"] = {marking: "true"}
    assert with_presets(document, [preset(cpu={"cores": 7})]) == document
    document["metadata"]["annotations"] = {marking: "false"}
    assert agreed(with_presets(document, [preset(cpu={"cores": 7})])) == ["small"]


def test_several_presets_each_bring_their_part() -> None:
    made = with_presets(vmi(), [preset("b", ioThreadsPolicy="auto"), preset("a", cpu={"cores": 7})])
    assert agreed(made) == ["a", "b"]
    assert (made["spec"]["domain"]["cpu"], made["spec"]["domain"]["ioThreadsPolicy"]) == ({"cores": 7}, "auto")


def test_presets_that_contradict_each_other_keep_the_vmi_out() -> None:
    rivals = [
        preset("a", resources={"requests": {"memory": "128M"}}, cpu={"cores": 1}),
        preset("b", resources={"requests": {"memory": "256M"}}, cpu={"cores": 1, "threads": 0}),
    ]
    document = vmi()
    assert with_presets(document, rivals) == document
    (cause,) = plan_verdict(request(document), CLUSTER, rivals).causes
    assert cause.field == "metadata.labels"
    assert cause.message == (
        "VirtualMachinePresets cannot be applied due to conflicts: presets 'b' and 'a' conflict:"
        " spec.resources.requests[memory]: 256M != 128M"
    )
    document["metadata"]["labels"] = {}
    assert plan_verdict(request(document), CLUSTER, rivals).causes == ()


def test_a_clock_contradicts_by_its_offset_and_by_its_timers() -> None:
    clocks = [
        {"utc": {}},
        {"timezone": "Europe/Berlin", "timer": {"hpet": {"present": True}}},
        {"utc": {}, "timer": {"hpet": {"present": False}}},
    ]
    found = preset_conflicts([preset(str(number), clock=clock) for number, clock in enumerate(clocks)])
    assert [cause.message.partition("conflict: spec.")[2].partition(":")[0] for cause in found] == [
        "clock.clockoffset",
        "clock.timer",
    ]


def test_a_vmi_enters_with_its_preset_and_defaults_and_its_author_is_told() -> None:
    presets = [preset(cpu={"cores": 7})]
    document = vmi()
    made = jsonpatch.apply_patch(document, plan_mutation(request(document), CLUSTER, NOW, presets))
    assert made["spec"]["domain"]["cpu"] == {"cores": 7, "sockets": 1, "threads": 1, "model": "host-model"}
    verdict = plan_verdict(request(made), CLUSTER, presets)
    assert verdict.causes == ()
    (warning,) = verdict.warnings
    assert warning.startswith(
        "kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2."
    )
    assert "instance type" in warning
