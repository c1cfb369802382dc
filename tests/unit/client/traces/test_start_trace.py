"""What is known of a start, from all who know it, each step once and in order."""

from __future__ import annotations

from typing import Any

from kvedge.client.traces.start_trace import STEPS, Reached, merge_steps
from kvedge.resources.names import MADE_UNIX_MS

# 2025-06-15T15:06:40Z
SECOND = 1_750_000_000_000
AT = "2025-06-15T15:06:40Z"
VMI = {"metadata": {"creationTimestamp": AT}}


def pod(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": AT, "annotations": annotations},
        "status": {
            "conditions": [
                {"type": "PodScheduled", "lastTransitionTime": AT},
                {"type": "Ready", "lastTransitionTime": "2025-06-15T15:06:41Z"},
            ],
            "containerStatuses": [{"state": {"running": {"startedAt": AT}}}, {"state": {"waiting": {}}}],
        },
    }


def told(launcher: dict[str, int], handler: dict[str, int]) -> dict[str, Any]:
    def entries(found: dict[str, int]) -> list[dict[str, Any]]:
        return [{"step": step, "unixMs": SECOND + at} for step, at in found.items()]

    return {"launcher": entries(launcher), "handler": entries(handler)}


def names(reached: list[Reached]) -> list[str]:
    return [item.step for item in reached]


def test_steps_stand_in_order_whoever_tells_them() -> None:
    notes = told({"launcher-begun": 600, "serving": 900, "handed-over": 1200}, {"pod-seen": 850, "sync-done": 1500})
    found = merge_steps(notes, VMI, pod(**{MADE_UNIX_MS: str(SECOND + 300)}))
    assert names(found) == [
        "vmi-created",
        "pod-made",
        "pod-scheduled",
        "container-started",
        "launcher-begun",
        "pod-seen",
        "serving",
        "pod-ready",
        "handed-over",
        "sync-done",
    ]
    assert {item.step for item in found if item.whole_seconds} == {
        *("vmi-created", "pod-scheduled", "container-started", "pod-ready")
    }
    assert found[1] == Reached("pod-made", SECOND + 300)


def test_a_time_that_was_noted_goes_before_that_of_an_object() -> None:
    (made,) = (item for item in merge_steps(told({}, {}), VMI, pod()) if item.step == "pod-made")
    assert made == Reached("pod-made", SECOND, whole_seconds=True)
    for nonsense in ("", "-1", "soon", "9" * 40):
        (made,) = (
            item for item in merge_steps(told({}, {}), VMI, pod(**{MADE_UNIX_MS: nonsense})) if item.step == "pod-made"
        )
        assert made.whole_seconds


def test_a_handler_that_came_later_does_not_tell_of_the_start() -> None:
    notes = told({"handed-over": 1200}, {"pod-seen": 9000, "launcher-connected": 9001, "sync-done": 9100})
    assert names(merge_steps(notes, VMI, None)) == ["vmi-created", "handed-over"]


def test_an_old_launcher_leaves_what_the_handler_and_the_objects_know() -> None:
    notes = told({}, {"pod-seen": 100, "status-patched": 900})
    assert names(merge_steps(notes, VMI, None)) == ["vmi-created", "pod-seen", "status-patched"]


def test_a_step_of_a_newer_version_and_an_object_without_times_are_left_out() -> None:
    assert merge_steps(told({"warp": 1}, {}), {"metadata": {}}, {"status": {"conditions": [{}]}}) == []


def test_a_step_is_told_to_programs_with_its_precision() -> None:
    assert Reached("serving", SECOND).document() == {
        "step": "serving",
        "who": "launcher",
        "text": STEPS["serving"][1],
        "unixMs": SECOND,
        "precision": "millisecond",
    }
    assert Reached("pod-made", SECOND, whole_seconds=True).document()["precision"] == "second"
