"""Workers over a queue."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from kvedge.kube import reconcile_loop
from kvedge.kube.errors import Conflict, Unavailable
from kvedge.kube.reconcile_loop import Again, ReconcileLoop, backoff
from kvedge.kube.work_queue import Key, WorkQueue
from tests.support.waiting import wait_until

A = Key("default", "a")


def test_each_key_is_worked_on():
    seen: list[Key] = []
    loop = ReconcileLoop("test", lambda key: seen.append(key), workers=2)
    loop.start()
    keys = [Key("default", str(number)) for number in range(20)]
    for key in keys:
        loop.add(key)
    wait_until(lambda: len(seen) == 20, "all keys are worked on")
    loop.stop()
    assert sorted(seen) == sorted(keys)


def test_a_loop_that_pauses_does_afterwards_what_it_was_asked_meanwhile():
    seen: list[Key] = []
    loop = ReconcileLoop("test", seen.append)
    loop.pause()
    loop.start()
    for name in ("b", "a", "a"):
        loop.add(Key("default", name))
    wait_until(lambda: len(loop.queue) == 0, "the queue is empty")
    assert seen == []
    loop.resume()
    wait_until(lambda: len(seen) == 2, "both are worked on")
    loop.add(A)
    wait_until(lambda: len(seen) == 3, "and whatever comes")
    loop.stop()
    assert sorted(set(seen)) == [A, Key("default", "b")]


def test_a_pass_that_asks_for_it_is_repeated():
    passes: list[Key] = []

    def reconcile(key: Key) -> Again | None:
        passes.append(key)
        return Again(0.01) if len(passes) < 3 else None

    loop = ReconcileLoop("test", reconcile)
    loop.start()
    loop.add(A)
    wait_until(lambda: len(passes) == 3, "three passes")
    loop.stop()


def test_a_queue_that_is_handed_in_empty_is_the_one_that_the_workers_take_from():
    passes: list[Key] = []
    queue = WorkQueue()
    loop = ReconcileLoop("test", passes.append, queue=queue)
    loop.start()
    queue.add(A)
    wait_until(lambda: passes == [A], "a pass")
    loop.stop()


@pytest.mark.parametrize("error", [Conflict(409, "Conflict", "old"), Unavailable(503, "", "away"), ZeroDivisionError()])
def test_a_pass_that_fails_is_repeated_and_does_not_stop_the_others(error):
    passes: Counter[Key] = Counter()

    def reconcile(key: Key) -> None:
        passes[key] += 1
        if key == A and passes[key] < 3:
            raise error

    loop = ReconcileLoop("test", reconcile)
    loop.start()
    loop.add(A)
    loop.add(Key("default", "b"))
    wait_until(lambda: passes[A] == 3 and passes[Key("default", "b")] == 1, "both are worked on")
    assert loop.failure() is None
    loop.stop()


def test_one_key_is_never_in_two_workers():
    inside = threading.Semaphore(1)
    clashes: list[str] = []
    passes: list[int] = []

    def reconcile(key: Key) -> None:
        if not inside.acquire(blocking=False):
            clashes.append(threading.current_thread().name)
            return
        passes.append(1)
        loop.add(key) if len(passes) < 50 else None
        inside.release()

    loop = ReconcileLoop("test", reconcile, workers=4)
    loop.start()
    loop.add(A)
    wait_until(lambda: len(passes) == 50, "fifty passes")
    loop.stop()
    assert clashes == []


def test_a_pass_that_hangs_shows_and_does_not_keep_the_loop_from_stopping(monkeypatch: pytest.MonkeyPatch):
    hold = threading.Event()
    loop = ReconcileLoop("test", lambda key: hold.wait(30) and None)
    loop.start()
    loop.add(A)
    wait_until(lambda: loop.busy_seconds() > 0, "the pass has begun")
    assert loop.failure() is None, "not for long yet"
    monkeypatch.setattr(reconcile_loop, "STUCK_SECONDS", 0.0)
    assert loop.failure() == "a pass has been stuck for 0 s"
    loop.stop()
    hold.set()
    assert loop.failure() is None


def test_its_threads_have_its_name():
    names: list[str] = []
    loop = ReconcileLoop("vmi", lambda key: names.append(threading.current_thread().name))
    loop.start()
    loop.add(A)
    wait_until(lambda: names, "a pass")
    loop.stop()
    assert names == ["vmi-0"]


def test_delays_double_up_to_a_minute_and_are_spread():
    delays = [backoff(failures, 0.5) for failures in range(1, 15)]
    assert delays[:3] == [0.05, 0.1, 0.2]
    assert delays == sorted(delays)
    assert delays[-1] == 60.0
    assert backoff(10**6, 1.0) == 75.0
    assert backoff(1, 0.0) < backoff(1, 1.0)
