"""When a change of devices is tried again, and who hears of it."""

from __future__ import annotations

from kvedge.launcher.hotplug.attempts import ASK_AGAIN_SECONDS, LONGEST_PAUSE, PATIENCE_SECONDS, note_attempt


def test_pauses_double_up_to_a_minute() -> None:
    step, attempt, pauses = "attach a", None, []
    for _ in range(20):
        attempt = note_attempt(attempt, step, 100.0, "no", asks=False)
        pauses.append(attempt.due - 100.0)
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert max(pauses) == LONGEST_PAUSE


def test_an_error_is_told_at_once_and_a_silent_guest_after_half_a_minute() -> None:
    assert note_attempt(None, "attach a", 0.0, "no", asks=False).is_told(0.0)
    asked = note_attempt(None, "detach a", 0.0, "", asks=True)
    assert asked.due == ASK_AGAIN_SECONDS
    assert not asked.is_told(PATIENCE_SECONDS - 1)
    assert asked.is_told(PATIENCE_SECONDS)
    assert note_attempt(asked, "detach a", 29.0, "", asks=True).is_told(PATIENCE_SECONDS)
