"""The queue of keys."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from kvedge.kube.work_queue import Key, WorkQueue

A, B = Key("default", "a"), Key("default", "b")


class FakeTime:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_key_that_waits_is_not_added_again():
    queue = WorkQueue()
    for _ in range(3):
        queue.add(A)
    assert queue.take(0) == A
    assert queue.take(0) is None


def test_keys_come_in_the_order_in_which_they_were_added():
    queue = WorkQueue()
    queue.add(B)
    queue.add(A)
    assert [queue.take(0), queue.take(0)] == [B, A]


def test_a_key_in_work_is_handed_to_nobody_else_but_comes_again_after_it():
    queue = WorkQueue()
    queue.add(A)
    assert queue.take(0) == A
    queue.add(A)
    assert queue.take(0) is None
    queue.finish(A)
    assert queue.take(0) == A
    queue.finish(A)
    assert queue.take(0) is None


def test_a_delayed_key_is_due_when_its_time_has_come():
    time = FakeTime()
    queue = WorkQueue(time)
    queue.add_after(A, 5)
    assert queue.take(0) is None
    time.now += 5
    assert queue.take(0) == A


def test_the_earlier_of_two_delays_counts():
    time = FakeTime()
    queue = WorkQueue(time)
    queue.add_after(A, 5)
    queue.add_after(A, 50)
    queue.add_after(A, 2)
    time.now += 2
    assert queue.take(0) == A
    queue.finish(A)
    time.now += 100
    assert queue.take(0) is None, "the later delays were for the same thing"


def test_a_key_that_is_added_meanwhile_is_not_waited_for_any_more():
    time = FakeTime()
    queue = WorkQueue(time)
    queue.add_after(A, 5)
    queue.add(A)
    assert queue.take(0) == A
    queue.finish(A)
    time.now += 10
    assert queue.take(0) is None


def test_a_delay_of_nothing_is_now():
    queue = WorkQueue()
    queue.add_after(A, 0)
    assert queue.take(0) == A


def test_closing_wakes_whoever_waits():
    queue = WorkQueue()
    taken: list[Key | None] = [A]
    waiter = threading.Thread(target=lambda: taken.append(queue.take()))
    waiter.start()
    queue.close()
    waiter.join(5)
    assert not waiter.is_alive()
    assert taken == [A, None]
    queue.add(B)
    assert queue.take(0) is None


def test_an_add_wakes_whoever_waits_for_something_later():
    queue = WorkQueue()
    queue.add_after(B, 3600)
    taken: list[Key | None] = []
    waiter = threading.Thread(target=lambda: taken.append(queue.take(30)))
    waiter.start()
    queue.add(A)
    waiter.join(10)
    assert taken == [A]


def test_its_length_is_what_needs_work_now():
    time = FakeTime()
    queue = WorkQueue(time)
    queue.add(A)
    queue.add_after(B, 5)
    assert len(queue) == 1
    time.now += 5
    assert len(queue) == 2


@given(
    st.lists(st.sampled_from(["add a", "add b", "later a", "later b", "take", "done a", "done b", "tick"]), max_size=60)
)
def test_no_key_is_ever_in_two_hands_and_none_is_lost(steps):
    time = FakeTime()
    queue = WorkQueue(time)
    held: set[Key] = set()
    wanted: set[Key] = set()
    for step in steps:
        verb, _, which = step.partition(" ")
        key = A if which == "a" else B
        if verb == "add":
            queue.add(key)
            wanted.add(key)
        elif verb == "later":
            queue.add_after(key, 1)
            wanted.add(key)
        elif verb == "take":
            taken = queue.take(0)
            if taken is not None:
                assert taken not in held
                held.add(taken)
                wanted.discard(taken)
        elif verb == "done" and key in held:
            held.discard(key)
            queue.finish(key)
        elif verb == "tick":
            time.now += 1
    for key in held:
        queue.finish(key)
    time.now += 10
    left = set()
    while (taken := queue.take(0)) is not None:
        left.add(taken)
        queue.finish(taken)
    assert wanted <= left
