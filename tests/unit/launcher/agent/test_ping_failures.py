"""Failed pings are told of at once, and no more often than a user reads of them."""

from __future__ import annotations

from kvedge.launcher.agent.ping_failures import AGAIN_SECONDS, PingFailures


def test_a_probe_that_fails_each_second_is_told_of_once_a_minute() -> None:
    failures = PingFailures()
    told = [now for now in range(181) if failures.note_failure(float(now))]
    assert told == [0, AGAIN_SECONDS, 2 * AGAIN_SECONDS, 3 * AGAIN_SECONDS]
    assert failures.told == len(told)
