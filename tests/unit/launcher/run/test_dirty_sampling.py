"""How fast memory changes is measured now and then, and only what was measured lately is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kvedge.launcher.launcher_errors import WrongState
from kvedge.launcher.run.dirty_sampling import PAUSE_SECONDS, DirtySampling


class PlayedRate:
    """QEMU, whose measurements have the results that it is given."""

    def __init__(self) -> None:
        self.begun = 0
        self.result: int | None = None
        self.refuses = False

    def begin(self) -> None:
        if self.refuses:
            raise WrongState("another job has the guest")
        self.begun += 1

    def read(self) -> int | None:
        return self.result


def sampling(rate: PlayedRate, now: list[float]) -> DirtySampling:
    session: Any = SimpleNamespace(dirty_rate=rate)
    return DirtySampling(session, lambda: now[0], lambda work: work())


def test_what_was_measured_is_told_to_the_next_one_that_asks() -> None:
    rate, now = PlayedRate(), [0.0]
    samples = sampling(rate, now)
    rate.result = 3
    assert samples.read() is None, "that of another process, which nobody here has asked for"
    now[0] = 5.0
    assert (samples.read(), rate.begun) == (3, 1)


def test_qemu_measures_no_more_often_than_is_needed() -> None:
    rate, now = PlayedRate(), [0.0]
    samples = sampling(rate, now)
    for second in range(101):
        now[0] = float(second)
        samples.read()
    assert rate.begun == 1 + 100 // PAUSE_SECONDS


def test_what_was_measured_long_ago_is_not_told() -> None:
    rate, now = PlayedRate(), [0.0]
    samples = sampling(rate, now)
    samples.read()
    rate.result, now[0] = 3, 4 * PAUSE_SECONDS
    assert (samples.read(), rate.begun) == (None, 2)


def test_a_guest_that_cannot_be_measured_is_asked_again_later_alone() -> None:
    rate, now = PlayedRate(), [0.0]
    rate.refuses = True
    samples = sampling(rate, now)
    assert samples.read() is None
    rate.refuses, now[0] = False, 1.0
    samples.read()
    assert rate.begun == 0
    now[0] = PAUSE_SECONDS
    samples.read()
    assert rate.begun == 1
