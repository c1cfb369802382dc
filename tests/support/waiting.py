"""Waiting for a state instead of sleeping: ask again until it holds or the time is up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# In a whole run several tests share the processors, and what takes a second alone may take many. A longer wait costs
# nothing where the answer comes.
PATIENCE = 3 if "PYTEST_XDIST_WORKER" in os.environ else 1


def wait_until(check: Callable[[], T], what: str, seconds: float = 60.0, pause: float = 0.05) -> T:
    """The first true answer of `check`; fails the test with `what` and the last answer when there is none in time.

    `seconds` is for a machine that does nothing else: beside other tests it is `PATIENCE` times as long.
    """
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s, last seen: {answer!r}")
        time.sleep(pause)
