"""Whose turn it is, and that no pull that hangs keeps others, or the program, from going on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from kvedge.standalone.agent.pod.pull_queue import AT_ONCE, PER_NAMESPACE, Job, PullQueue, next_job
from tests.support.waiting import wait_until


def _job(namespace: str, run: Callable[[], None] = lambda: None, owner: str = "") -> Job:
    return Job(namespace, run, lambda: None, owner)


def test_the_namespace_with_the_fewest_pulls_is_next_and_then_the_one_that_asked_first() -> None:
    jobs = [_job("a"), _job("b"), _job("c")]

    assert next_job([jobs[0], jobs[2]], {"a": 1}) is jobs[2]
    assert next_job(jobs, {"a": 1, "b": 0, "c": 0}) is jobs[1]
    assert next_job(jobs, {}) is jobs[0]


def test_a_namespace_has_no_more_than_its_share_and_all_no_more_than_there_is() -> None:
    assert next_job([_job("a")], {"a": PER_NAMESPACE}) is None
    assert next_job([_job("b")], {"a": PER_NAMESPACE}) is not None
    assert next_job([_job("e")], dict.fromkeys("ab", AT_ONCE // 2)) is None


class _Hanging:
    """Pulls that go on until they are let go or cancelled."""

    def __init__(self) -> None:
        self.queue = PullQueue()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.ended = threading.Event()

    def add(self, namespace: str, owner: str = "") -> None:
        cancelled = threading.Event()

        def run() -> None:
            self.running[namespace] += 1
            self.most[namespace] = max(self.most[namespace], self.running[namespace])
            cancelled.wait(60)
            self.running[namespace] -= 1

        self.queue.add(Job(namespace, run, cancelled.set, owner))


def test_a_namespace_whose_pulls_all_hang_leaves_room_for_the_others() -> None:
    pulls = _Hanging()
    for _ in range(10):
        pulls.add("greedy", "greedy's")
    done = threading.Event()
    pulls.queue.add(_job("other", done.set))
    assert done.wait(30)
    assert pulls.most["greedy"] <= PER_NAMESPACE

    pulls.queue.cancel("greedy's")
    wait_until(lambda: not pulls.running["greedy"], "all of them end, and those that waited never begin")
    pulls.queue.stop()


def test_a_cancelled_pull_gives_its_place_to_the_next() -> None:
    pulls = _Hanging()
    for owner in ("one", "two")[:PER_NAMESPACE]:
        pulls.add("a", owner)
    wait_until(lambda: pulls.running["a"] == PER_NAMESPACE, "the share is used")
    done = threading.Event()
    pulls.queue.add(_job("a", done.set))
    assert not done.wait(0.1)

    pulls.queue.cancel("one")
    assert done.wait(30)
    pulls.queue.stop()


def test_after_the_stop_nothing_begins() -> None:
    pulls = _Hanging()
    pulls.add("a")
    wait_until(lambda: pulls.running["a"] == 1, "it runs")
    pulls.queue.stop()
    begun = threading.Event()
    pulls.queue.add(_job("b", begun.set))

    wait_until(lambda: not pulls.running["a"], "it ends")
    assert not begun.wait(0.1)


@pytest.mark.parametrize("error", [ValueError("x"), OverflowError(), MemoryError(), RecursionError(), OSError(5, "x")])
def test_whatever_a_pull_raises_the_next_ones_go_on(error: Exception) -> None:
    queue = PullQueue()

    def broken() -> None:
        raise error

    for _ in range(AT_ONCE + PER_NAMESPACE):
        queue.add(_job("a", broken))
    done = threading.Event()
    queue.add(_job("a", done.set))
    assert done.wait(30)
    queue.stop()


def test_no_pull_keeps_the_program_from_ending() -> None:
    pulls = _Hanging()
    pulls.add("a")
    wait_until(lambda: pulls.running["a"] == 1, "it runs")

    found = [thread for thread in threading.enumerate() if thread.name == "image-pull"]
    assert found
    assert all(thread.daemon for thread in found)
    pulls.queue.stop()
