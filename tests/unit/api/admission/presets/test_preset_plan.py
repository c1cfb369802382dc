"""What VMIs get of presets, and which presets contradict each other."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.presets import preset_parts
from kvedge.api.admission.presets.preset_parts import Preset, make_preset
from kvedge.api.admission.presets.preset_plan import LEFT_BARE, MOST_PRESETS, preset_conflicts, with_presets
from kvedge.api.admission.rules.causes import MOST_CAUSES
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
    return make_preset(name, selector_of(LabelSelector(match_labels={"app": label})), domain)


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
    left = with_presets(document, rivals)
    assert left["spec"] == document["spec"]
    assert agreed(left) == []
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
    wanted = {"cores": 7, "maxSockets": 4, "sockets": 1, "threads": 1, "model": "host-model"}
    assert made["spec"]["domain"]["cpu"] == wanted
    verdict = plan_verdict(request(made), CLUSTER, presets)
    assert verdict.causes == ()
    (warning,) = verdict.warnings
    assert warning.startswith(
        "kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2."
    )
    assert "instance type" in warning


def test_a_quarrel_that_ends_between_the_two_calls_keeps_the_vmi_out_all_the_same() -> None:
    rivals = [preset("a", cpu={"cores": 1}), preset("b", cpu={"cores": 2})]
    document = vmi()
    bare = jsonpatch.apply_patch(document, plan_mutation(request(document), CLUSTER, NOW, rivals))
    (cause,) = plan_verdict(request(bare), CLUSTER, rivals[:1]).causes
    assert cause.field == "metadata.labels"
    assert cause.message.endswith("presets 'b' and 'a' conflict: spec.cpu: {\"cores\": 2} != {\"cores\": 1}")
    # While it goes on it is told once.
    assert len(plan_verdict(request(bare), CLUSTER, rivals).causes) == 1
    # A mark that somebody has copied into a template does not count.
    document["metadata"]["annotations"] = bare["metadata"]["annotations"]
    made = jsonpatch.apply_patch(document, plan_mutation(request(document), CLUSTER, NOW, rivals[:1]))
    assert LEFT_BARE not in made["metadata"]["annotations"]
    assert agreed(made) == ["a"]
    assert plan_verdict(request(made), CLUSTER, rivals[:1]).causes == ()
    assert LEFT_BARE not in with_presets(document, [])["metadata"]["annotations"]


def test_more_presets_than_anybody_means_keep_the_vmi_out() -> None:
    many = [preset(f"p{number}", cpu={"cores": 1}) for number in range(MOST_PRESETS + 1)]
    document = vmi()
    assert plan_verdict(request(document), CLUSTER, many[1:]).causes == ()
    assert len(agreed(with_presets(document, many[1:]))) == MOST_PRESETS
    assert agreed(with_presets(document, many)) == []
    (cause,) = plan_verdict(request(document), CLUSTER, many).causes
    assert cause.field == "metadata.labels[app]"
    assert cause.message.startswith(
        "metadata.labels[app]: 65 VirtualMachineInstancePresets select this VMI, and 64 may"
    )
    assert "virtualmachineinstancepresets.admission.kubevirt.io/exclude" in cause.message
    document["metadata"]["annotations"] = {"virtualmachineinstancepresets.admission.kubevirt.io/exclude": "true"}
    assert plan_verdict(request(document), CLUSTER, many).causes == ()


def test_no_more_contradictions_are_found_than_an_answer_tells() -> None:
    amounts = [{f"example.com/r{number}": str(side) for number in range(1000)} for side in range(2)]
    rivals = [preset(f"p{side}", resources={"requests": amounts[side]}) for side in range(2)]
    assert len(plan_verdict(request(vmi()), CLUSTER, rivals).causes) == MOST_CAUSES + 1


def test_a_vmis_part_is_decoded_once_for_all_presets_and_theirs_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    presets = [preset(f"p{number}", cpu={"cores": 7, "threads": number % 2}) for number in range(0, 40, 2)]
    decoded = []
    decode = preset_parts.decode
    monkeypatch.setattr(preset_parts, "decode", lambda cls, value: decoded.append(value) or decode(cls, value))
    document = vmi(cpu={"cores": 7, "sockets": 0})
    assert len(agreed(with_presets(document, presets))) == 20
    assert decoded == [{"cpu": {"cores": 7, "sockets": 0}}]
    assert plan_verdict(request(document), CLUSTER, presets).causes == ()
    assert len(decoded) == 1


def test_a_vmi_that_is_refused_for_what_a_preset_brought_names_the_preset() -> None:
    presets = [preset("fast", clock={"utc": {"offsetSeconds": 1}, "timezone": "Europe/Berlin"}), preset("small")]
    document = vmi()
    document["spec"]["hostname"] = "_"
    made = jsonpatch.apply_patch(document, plan_mutation(request(document), CLUSTER, NOW, presets))
    assert agreed(made) == ["fast"]
    found = {cause.field: cause.message for cause in plan_verdict(request(made), CLUSTER, presets).causes}
    assert {field: "VirtualMachineInstancePresets: fast)" in text for field, text in found.items()} == {
        "spec.domain.clock": True,
        "spec.hostname": False,
    }


def test_a_vmi_that_may_have_missed_presets_enters_with_a_warning() -> None:
    document = vmi()
    verdict = plan_verdict(request(document), CLUSTER, preset_doubt="could not be listed")
    assert (verdict.causes, verdict.warnings) == ((), ("could not be listed",))
    assert plan_verdict(request(document, document), CLUSTER, preset_doubt="could not be listed").warnings == ()
    document["metadata"]["annotations"] = {"virtualmachineinstancepresets.admission.kubevirt.io/exclude": "true"}
    assert plan_verdict(request(document), CLUSTER, preset_doubt="could not be listed").warnings == ()
