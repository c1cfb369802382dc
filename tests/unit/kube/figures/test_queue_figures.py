"""What queues count, and that a queue which is gone is no longer told of."""

from __future__ import annotations

from kvedge.kube.figures.queue_figures import register_queue, tell_queues
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import Key, WorkQueue

ONE, TWO = Key("", "one"), Key("", "two")


def test_a_queue_counts_what_it_was_given_how_long_that_waited_and_how_long_work_took() -> None:
    now = [100.0]
    queue = WorkQueue(lambda: now[0])
    queue.add(ONE)
    queue.add(ONE)
    queue.add(TWO)
    now[0] += 2
    assert queue.take() == ONE
    now[0] += 3
    queue.count_retry()
    told = queue.tell("q")
    assert (told.name, told.adds, told.depth, told.retries) == ("q", 2, 1, 1)
    assert (told.longest, told.unfinished, told.waited.total) == (3.0, 3.0, 2.0)
    queue.finish(ONE)
    told = queue.tell("q")
    assert (told.longest, told.worked.total, sum(told.worked.counts)) == (0.0, 3.0, 1)


def test_a_key_that_changes_while_it_is_worked_on_waits_from_then_on() -> None:
    now = [100.0]
    queue = WorkQueue(lambda: now[0])
    queue.add(ONE)
    queue.take()
    now[0] += 1
    queue.add(ONE)
    now[0] += 1
    queue.finish(ONE)
    queue.take()
    told = queue.tell("q")
    assert (told.adds, told.waited.total, told.worked.total) == (2, 1.0, 2.0)


def test_queues_are_found_by_the_names_of_their_loops_as_long_as_they_are_there() -> None:
    loop = ReconcileLoop("test-of-figures", lambda key: None)
    loop.add(ONE)
    assert [told.depth for told in tell_queues() if told.name == "test-of-figures"] == [1]
    newer = WorkQueue()
    register_queue("test-of-figures", newer)
    assert [told.depth for told in tell_queues() if told.name == "test-of-figures"] == [0]
    del newer
    assert [told.depth for told in tell_queues() if told.name == "test-of-figures"] == []
