"""What one watcher is sent: selected, in order, bounded."""

from __future__ import annotations

import asyncio

import pytest

from kvedge.standalone.apiserver import watch_queue
from kvedge.standalone.apiserver.list_rules import ListOptions, list_options
from kvedge.standalone.apiserver.served_kinds import ServedKind
from kvedge.standalone.apiserver.stored import Change, Stored
from kvedge.standalone.apiserver.watch_queue import WatchQueue, delivered_as
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
    assert delivered_as(change, "", options(labelSelector="x=in")) == expected


def test_other_namespaces_are_not_heard_of() -> None:
    assert delivered_as(added(IN), "n", options()) == "ADDED"
    assert delivered_as(added(IN), "m", options()) is None


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


def test_a_closed_queue_takes_nothing_in_and_wakes_its_watcher() -> None:
    async def run() -> list[watch_queue.Delivery]:
        queue = WatchQueue("", options(), lambda: None)
        asyncio.get_running_loop().call_soon(queue.close)
        taken = await queue.take(5)
        queue.offer(added(IN))
        return taken + queue.take_now()

    assert asyncio.run(run()) == []
