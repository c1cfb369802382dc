"""Waiting for a state instead of sleeping: ask again until it holds or the time is up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")
# In a whole run several tests share the processors, and what takes a second alone may take many. A longer wait costs
# nothing where the answer comes.
_STRETCH: Final = 3 if "PYTEST_XDIST_WORKER" in os.environ else 1
# After so many waits in vain what fails is not the time: to stretch all the others, too, takes the whole run's.
_MOST_IN_VAIN: Final = 3
# Between two looks. Who asks twenty times a second for as long as a guest boots takes the time away that it needs.
_SHORTEST: Final = 0.05
_LONGEST: Final = 0.25
_LONGEST_AFTER_WORK: Final = 1.0
# What this process has waited for in vain.
_in_vain: list[str] = []


def patience() -> int:
    """How many times as long as on a machine that does nothing else a test waits: no longer, once much was in vain."""
    return _STRETCH if len(_in_vain) < _MOST_IN_VAIN else 1


def note_in_vain(what: str) -> None:
    """Something has not come in time: for whoever waits by other means than :func:`wait_until`."""
    _in_vain.append(what)


def wait_until(check: Callable[[], T], what: str, seconds: float = 60.0, pause: float | None = None) -> T:
    """The first true answer of `check`; fails the test with `what` and the last answer when there is none in time.

    `seconds` is for a machine that does nothing else: beside other tests it is `patience()` times as long. A test that
    must see something short says how long to `pause` between two looks, which is longer after a look by a program that
    took much; others look less often the longer they wait.
    """
    answer = _first(check, seconds * patience(), pause)
    if not answer:
        note_in_vain(what)
        raise AssertionError(f"{what}: not within {seconds} s, last seen: {answer!r}")
    return answer


def comes_within(check: Callable[[], Any], seconds: float, pause: float | None = None) -> bool:
    """Whether `check` becomes true in exactly so long: for what must not come, and is not waited for any longer."""
    return bool(_first(check, seconds, pause))


def _first(check: Callable[[], T], seconds: float, pause: float | None) -> T:
    """The first true answer in this time, or the last one."""
    begun = time.monotonic()
    while True:
        spent, programs = _processor_seconds()
        answer = check()
        waited = time.monotonic() - begun
        if answer or waited > seconds:
            return answer
        spent_now, programs_now = _processor_seconds()
        if pause is None:
            time.sleep(next_pause(waited, spent_now - spent))
        else:
            time.sleep(max(pause, min(2 * (programs_now - programs), _LONGEST_AFTER_WORK)))


def next_pause(waited: float, spent: float) -> float:
    """How long to leave it: a tenth of the wait so far, and a while after a look that cost much, as programs do."""
    return max(min(max(_SHORTEST, waited / 10), _LONGEST), min(2 * spent, _LONGEST_AFTER_WORK))


def _processor_seconds() -> tuple[float, float]:
    """What this process and the programs that it has run took, and the programs' share of it."""
    own, programs = sum(os.times()[:2]), sum(os.times()[2:4])
    return own + programs, programs
