from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kvedge.standalone.volumes.copy_jobs import CopyJobs
from kvedge.storage.volumes.volume_driver import VolumeDriverError
from tests.support.waiting import wait_until


def test_a_copy_is_under_way_until_it_is_made_and_then_leaves_no_trace() -> None:
    jobs, go = CopyJobs(), threading.Event()
    jobs.begin("a", lambda keep_on: go.wait(10))
    assert jobs.is_under_way("a")
    jobs.begin("a", lambda keep_on: pytest.fail("it is under way"))
    go.set()
    wait_until(lambda: not jobs.is_under_way("a"), "the copy is made")
    assert jobs._outcomes == {}


def test_a_copy_that_failed_is_told_once_and_then_begun_anew() -> None:
    jobs, tried = CopyJobs(), []

    def fail(keep_on: Callable[[], None]) -> None:
        tried.append(1)
        raise VolumeDriverError("no room")

    jobs.begin("a", fail)
    wait_until(lambda: not jobs.is_under_way("a"), "the copy failed")
    with pytest.raises(VolumeDriverError, match="no room"):
        jobs.begin("a", fail)
    jobs.begin("a", fail)
    wait_until(lambda: len(tried) == 2 and not jobs.is_under_way("a"), "it was tried again")


def test_what_is_under_way_is_given_up_when_kvedge_stops() -> None:
    jobs, go, given_up = CopyJobs(), threading.Event(), threading.Event()

    def copy(keep_on: Callable[[], None]) -> None:
        go.wait(10)
        try:
            keep_on()
        except VolumeDriverError:
            given_up.set()
            raise

    jobs.begin("a", copy)
    jobs.stop()
    go.set()
    assert given_up.wait(10)
