"""Background work and exceptions that nobody expected."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kvedge.runtime import background
from kvedge.runtime.background import BackgroundThread, Pauses, on_trouble, passing_thread, survive
from kvedge.runtime.background_tasks import background_task, passing_task
from tests.support.waiting import wait_until

ERRORS = [ValueError, OverflowError, MemoryError]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    found: list[tuple[str, str]] = []
    forget = on_trouble(lambda name, what: found.append((name, what)))
    yield found
    forget()


class Work:
    """Raises some times, then goes on until it is over."""

    def __init__(self, error: type[Exception], times: int = 3) -> None:
        self.begun = 0
        self.over = threading.Event()
        self._error, self._times = error, times

    def __call__(self) -> None:
        self.begun += 1
        if self.begun <= self._times:
            raise self._error("on purpose")
        self.over.wait()


@pytest.mark.parametrize("error", ERRORS)
def test_a_threads_work_begins_anew_and_it_is_told(
    error: type[Exception], told: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(error)
    thread = BackgroundThread("counting", work)
    thread.start()
    wait_until(lambda: work.begun == 4, "the work goes on")
    assert told == [("counting", f"{error.__name__}: on purpose")] * 3
    assert caplog.text.count("background work failed") == 3
    assert thread.failure() is None
    work.over.set()
    thread.join(10)
    assert not thread.is_alive()
    assert thread.failure() is None, "it was stopped"


def test_a_thread_whose_work_returns_although_nobody_stopped_it_is_a_failure() -> None:
    thread = BackgroundThread("counting", lambda: None)
    assert thread.failure() is None
    thread.start()
    assert wait_until(thread.failure, "its end") == "the thread counting has ended"


def test_a_thread_that_is_about_to_begin_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    over, heard = threading.Event(), []
    thread = BackgroundThread("waiting", over.wait)
    begin = threading.Thread.start

    def start(self: threading.Thread) -> None:
        heard.append(thread.failure())
        begin(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    thread.start()
    assert (heard, thread.failure()) == ([None], None)
    over.set()
    thread.join(10)


def test_a_thread_that_pauses_after_an_exception_is_stopped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(background, "LONGEST_PAUSE", 3600.0)
    work = Work(ValueError)
    thread = BackgroundThread("counting", work)
    thread.start()
    wait_until(lambda: work.begun == 1, "the first try")
    thread.join(30)
    assert not thread.is_alive()


def test_a_thread_may_stop_itself() -> None:
    thread = BackgroundThread("counting", lambda: thread.join())
    thread.start()
    wait_until(lambda: not thread.is_alive(), "its end")


@pytest.mark.parametrize("error", ERRORS)
def test_a_tasks_work_begins_anew_and_the_others_go_on(error: type[Exception], told: list[tuple[str, str]]) -> None:
    async def both() -> int:
        over, begun, turns = asyncio.Event(), 0, 0

        async def failing() -> None:
            nonlocal begun
            begun += 1
            if begun < 3:
                raise error("on purpose")
            over.set()

        async def turning() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = background_task("turning", turning)
        await asyncio.wait_for(background_task("failing", failing), 30)
        assert over.is_set()
        seen = turns
        await asyncio.sleep(0.01)
        assert turns > seen
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        return begun

    assert asyncio.run(both()) == 3
    assert told == [("failing", f"{error.__name__}: on purpose")] * 2


def test_cancelling_ends_a_task_and_is_no_trouble(told: list[tuple[str, str]]) -> None:
    async def cancelled() -> bool:
        async def work() -> None:
            await asyncio.Event().wait()

        tasks = [background_task("a", work), passing_task("b", work)]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return all(task.cancelled() for task in tasks)

    assert asyncio.run(cancelled())
    assert told == []


@pytest.mark.parametrize("error", ERRORS)
def test_what_passes_is_told_once(error: type[Exception], told: list[tuple[str, str]]) -> None:
    def fail() -> None:
        raise error("on purpose")

    async def fail_too() -> None:
        fail()

    async def task() -> None:
        await passing_task("a task", fail_too)

    passing_thread("a thread", fail).join(10)
    asyncio.run(task())
    with survive("a block"):
        fail()
    assert told == [(name, f"{error.__name__}: on purpose") for name in ("a thread", "a task", "a block")]


def test_a_listener_that_fails_keeps_no_work_from_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)

    def refuse(name: str, what: str) -> None:
        raise LookupError("nobody there")

    forget = on_trouble(refuse)
    work = Work(ValueError)
    thread = BackgroundThread("counting", work)
    thread.start()
    wait_until(lambda: work.begun == 4, "the work goes on")
    forget()
    work.over.set()
    thread.join(10)


def test_pauses_grow_to_a_limit_and_start_over_once_the_work_lasted() -> None:
    moments = iter([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 1000.0])
    pauses = Pauses(lambda: next(moments))
    found = []
    for _ in range(4):
        pauses.begin()
        found.append(pauses.count_failure())
    assert found == [0.5, 1.0, 2.0, 0.5]
