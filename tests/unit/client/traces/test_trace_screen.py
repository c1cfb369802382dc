"""The screen of a start: lengths are of what is known to the millisecond, and the longest waits are marked."""

from __future__ import annotations

from kvedge.client.traces.start_trace import Reached
from kvedge.client.traces.trace_screen import plan_lines, render_screen

START = [
    Reached("vmi-created", 1000, whole_seconds=True),
    Reached("pod-made", 1100),
    Reached("container-started", 1000, whole_seconds=True),
    Reached("launcher-begun", 1400),
    Reached("serving", 1405),
    Reached("handed-over", 1455),
    Reached("start-asked", 1500),
    Reached("started", 1900),
    Reached("status-patched", 1909),
    Reached("agent-connected", 60_000),
]


def test_a_step_took_the_time_since_the_one_before() -> None:
    found = {line.reached.step: (line.offset, line.length) for line in plan_lines(START)}
    assert found["vmi-created"] == (None, None)
    assert found["pod-made"] == (0, None)
    assert found["launcher-begun"] == (300, 300)
    assert found["started"] == (800, 400)


def test_the_longest_waits_are_marked_and_the_guests_boot_is_none() -> None:
    assert [line.reached.step for line in plan_lines(START) if line.is_long] == [
        "launcher-begun",
        "handed-over",
        "started",
    ]
    quick = [Reached("pod-made", 0), Reached("launcher-begun", 9), Reached("serving", 12)]
    assert not any(line.is_long for line in plan_lines(quick)), "nothing there is worth a look"


def test_the_screen_shows_a_bar_for_each_step_and_the_sum() -> None:
    shown = render_screen(START)
    assert shown[0].split() == ["STEP", "WHO", "AT", "TOOK"]
    by_step = {line[:20].strip(): line for line in shown}
    assert "~:01 s" in by_step["VMI created"]
    assert by_step["QEMU runs the guest"].split()[5:] == ["800", "ms", "400", "ms", "█" * 15, "◄", "long"]
    assert "█" not in by_step["guest agent connecte"]
    assert shown[-1] == "809 ms in all: 400 ms (49 %) are the start of QEMU by libvirt, 409 ms all else."
    assert max(len(line) for line in shown) <= 120


def test_a_start_of_which_little_is_known_says_so() -> None:
    assert render_screen([])[-1].startswith("The launcher does not tell when it started QEMU")
    assert "earlier version" in render_screen(START[:1])[-1]
