"""What one watcher is sent: selected, in order, bounded."""

from __future__ import annotations

import asyncio

import pytest

from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests import watch_queue
from kvedge.standalone.apiserver.requests.list_rules import ListOptions, list_options
from kvedge.standalone.apiserver.requests.watch_queue import WatchQueue, judge_change
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, Stored
from tests.unit.standalone.apiserver.stored_objects import added, deleted, modified, stored

WIDGET = ServedKind("", "v1", "Widget", "widgets")


def options(**query: str) -> ListOptions:
    """The options of a watch."""
    return list_options(WIDGET, {"watch": "true", **query})


def labelled(value: str, revision: int) -> Stored:
    """A Widget with the label `x`."""
    return stored("a", revision, metadata={"labels": {"x": value}})


IN, OUT = labelled("in", 1), labelled("out", 2)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (added(IN), "ADDED"),
        (added(OUT), None),
        (modified(IN, IN), "MODIFIED"),
        (modified(OUT, IN), "DELETED"),
        (modified(IN, OUT), "ADDED"),
        (modified(OUT, OUT), None),
        (deleted(IN, IN), "DELETED"),
        (deleted(OUT, OUT), None),
    ],
    ids=["comes in", "comes out", "stays in", "leaves", "enters", "stays out", "goes from in", "goes from out"],
)
def test_a_selection_turns_changes_into_comings_and_goings(change: Change, expected: str | None) -> None:
    assert judge_change(change, "", options(labelSelector="x=in")) == expected


def test_other_namespaces_are_not_heard_of() -> None:
    assert judge_change(added(IN), "n", options()) == "ADDED"
    assert judge_change(added(IN), "m", options()) is None


def test_all_that_waits_is_taken_in_order() -> None:
    async def run() -> list[int]:
        queue = WatchQueue("", options(), lambda: None)
        for revision in range(1, 4):
            queue.offer(added(stored(f"w{revision}", revision)))
        taken = await queue.take(0)
        assert await queue.take(0.001) == []
        return [delivery.change.revision for delivery in taken]

    assert asyncio.run(run()) == [1, 2, 3]


def test_a_waiting_watcher_wakes_when_something_comes() -> None:
    async def run() -> int:
        queue = WatchQueue("", options(), lambda: None)
        asyncio.get_running_loop().call_soon(queue.offer, added(IN))
        return len(await queue.take(5))

    assert asyncio.run(run()) == 1


def test_a_watcher_that_falls_behind_is_cut_off_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_queue, "QUEUE_LIMIT", 3)
    cut: list[str] = []

    async def run() -> list[watch_queue.Delivery]:
        queue = WatchQueue("", options(), lambda: cut.append("off"))
        for revision in range(1, 10):
            queue.offer(added(stored(f"w{revision}", revision)))
        return queue.take_now()

    assert asyncio.run(run()) == []
    assert cut == ["off"]


def test_a_watcher_is_cut_off_for_few_large_changes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_queue, "QUEUE_BYTES", 1000)
    cut: list[str] = []
    large = stored("w", 1, spec={"text": "x" * 600})

    async def run() -> list[int]:
        queue = WatchQueue("", options(), lambda: cut.append("off"))
        taken = []
        for _ in range(3):
            # What was taken no longer counts.
            queue.offer(added(large))
            taken.append(len(queue.take_now()))
        queue.offer(added(stored("huge", 2, spec={"text": "x" * 5000})))
        taken.append(len(queue.take_now()))
        queue.offer(added(large))
        queue.offer(added(large))
        return taken

    assert asyncio.run(run()) == [1, 1, 1, 1]
    assert cut == ["off"]


LARGE = stored("large", 1, spec={"text": "x" * (2 * watch_queue.SPARED_BYTES)})


@pytest.mark.parametrize(
    ("sent", "waits", "compacted", "is_cut"),
    [
        (LARGE, IN, 0, False),
        (LARGE, IN, 1, True),
        (IN, LARGE, 1, True),
        (IN, IN, 1, False),
    ],
    ids=["the history still has it", "large and being sent", "large and waiting", "small"],
)
def test_a_slow_watcher_keeps_nothing_large_that_the_history_has_let_go_of(
    sent: Stored, waits: Stored, compacted: int, is_cut: bool
) -> None:
    cut: list[str] = []

    async def run() -> None:
        queue = WatchQueue("", options(), lambda: cut.append("off"), lambda: compacted)
        queue.offer(added(sent))
        assert await queue.take(0)
        for _ in range(3):
            queue.offer(added(waits))

    asyncio.run(run())
    assert cut == ["off"] * is_cut


def test_a_watcher_that_has_taken_everything_is_never_behind() -> None:
    cut: list[str] = []

    async def run() -> int:
        queue = WatchQueue("", options(), lambda: cut.append("off"), lambda: 99)
        queue.offer(added(LARGE))
        taken = len(await queue.take(0))
        assert await queue.take(0.001) == []
        queue.offer(added(LARGE))
        return taken + len(await queue.take(0))

    assert asyncio.run(run()) == 2
    assert cut == []


@pytest.mark.parametrize(("compacted", "is_cut"), [(5, False), (6, True)], ids=["kept", "let go of"])
def test_a_watcher_that_is_sent_the_state_counts_as_slow_once_changes_after_it_are_gone(
    compacted: int, is_cut: bool
) -> None:
    cut: list[str] = []
    queue = WatchQueue("", options(), lambda: cut.append("off"), lambda: compacted)
    queue.begin_state(5, 1 << 20)
    queue.offer(added(IN))
    assert cut == ["off"] * is_cut


def test_what_waits_is_taken_in_pieces_and_what_was_missed_comes_first() -> None:
    queue = WatchQueue("", options(), lambda: None)
    missed = [watch_queue.Delivery(added(LARGE), ChangeType.ADDED) for _ in range(5)]
    queue.fill(missed)
    queue.offer(added(IN))
    taken = []
    while not queue.is_empty:
        taken.append(len(queue.take_now()))
    assert sum(taken) == 6
    assert max(taken) <= 2


def test_a_closed_queue_takes_nothing_in_and_wakes_its_watcher() -> None:
    async def run() -> list[watch_queue.Delivery]:
        queue = WatchQueue("", options(), lambda: None)
        asyncio.get_running_loop().call_soon(queue.close)
        taken = await queue.take(5)
        queue.offer(added(IN))
        return taken + queue.take_now()

    assert asyncio.run(run()) == []
