"""Waiting for a state instead of sleeping: ask again until it holds or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(check: Callable[[], T], what: str, seconds: float = 60.0, pause: float = 0.05) -> T:
    """The first true answer of `check`; fails the test with `what` and the last answer when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s, last seen: {answer!r}")
        time.sleep(pause)
