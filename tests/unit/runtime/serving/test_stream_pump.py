"""The pump between two ends that are queues: why it ends, and that it waits for whoever is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from kvedge.runtime.serving import stream_core, stream_pump
from kvedge.runtime.serving.stream_pump import GOING_DOWN, LEFT, SILENT, Farewell, pump

T = TypeVar("T")
SAID = Farewell(1000, "another viewer came")


class End:
    """A viewer and a source at once: what is put into `incoming` is read from it, what is written waits for `room`."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.taken: list[bytes] = []
        self.room = asyncio.Semaphore(1000)
        self.pings = 0
        self.farewell = SAID
        self.closed: Farewell | None = None

    async def receive(self) -> bytes | None:
        found = await self.incoming.get()
        if isinstance(found, Exception):
            raise found
        return found

    read = receive

    async def send(self, data: bytes) -> None:
        await self.room.acquire()
        self.taken.append(data)

    write = send

    async def ping(self) -> None:
        self.pings += 1

    async def close(self, farewell: Farewell = LEFT) -> None:
        self.closed = farewell


def run(test: Callable[[End, End, asyncio.Future[Farewell]], Awaitable[T]]) -> tuple[T, Farewell, End, End]:
    """Run `test(viewer, source, sent_away)` beside a pump; nothing that the pump has started is left."""

    async def both() -> tuple[T, Farewell, End, End]:
        viewer, source, sent_away = End(), End(), asyncio.get_running_loop().create_future()
        pumping = asyncio.create_task(pump(viewer, source, sent_away))
        result = await test(viewer, source, sent_away)
        farewell = await asyncio.wait_for(pumping, 10)
        assert len(asyncio.all_tasks()) == 1
        assert viewer.closed == farewell
        assert source.closed is not None
        return result, farewell, viewer, source

    return asyncio.run(both())


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not check():
            await asyncio.sleep(0)


def test_a_viewer_that_leaves_ends_it() -> None:
    async def test(viewer: End, source: End, sent_away: asyncio.Future[Farewell]) -> None:
        await viewer.incoming.put(b"typed")
        await viewer.incoming.put(None)

    _, farewell, _, source = run(test)
    assert (farewell, source.taken) == (LEFT, [b"typed"])


def test_a_source_that_ends_says_why() -> None:
    async def test(viewer: End, source: End, sent_away: asyncio.Future[Farewell]) -> None:
        await source.incoming.put(b"last")
        await source.incoming.put(None)

    _, farewell, viewer, _ = run(test)
    assert (farewell, viewer.taken) == (SAID, [b"last"])


def test_a_connection_that_breaks_is_an_end_and_a_bug_is_not() -> None:
    async def breaks(viewer: End, source: End, sent_away: asyncio.Future[Farewell]) -> None:
        await viewer.incoming.put(ConnectionResetError())

    assert run(breaks)[1] == LEFT

    async def fails(viewer: End, source: End, sent_away: asyncio.Future[Farewell]) -> None:
        await viewer.incoming.put(ValueError("a bug"))

    with pytest.raises(ValueError, match="a bug"):
        run(fails)


def test_one_who_is_sent_away_while_he_takes_nothing_goes() -> None:
    async def test(viewer: End, source: End, sent_away: asyncio.Future[Farewell]) -> None:
        viewer.room = asyncio.Semaphore(0)
        await source.incoming.put(b"flood")
        await until(source.incoming.empty)
        sent_away.set_result(GOING_DOWN)

    assert run(test)[1] == GOING_DOWN


def test_one_chunk_is_under_way_while_a_side_is_slow() -> None:
    async def test(viewer: End, source: End, sent_away: asyncio.Future[Farewell]) -> tuple[int, int]:
        viewer.room = source.room = asyncio.Semaphore(0)
        for _ in range(100):
            await viewer.incoming.put(b"x")
            await source.incoming.put(b"x")
        await until(lambda: source.incoming.qsize() < 100 and viewer.incoming.qsize() < 100)
        left = viewer.incoming.qsize(), source.incoming.qsize()
        sent_away.set_result(LEFT)
        return left

    assert run(test)[0] == (99, 99)


def test_both_sides_are_pinged_and_one_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    real = stream_core.Liveness
    monkeypatch.setattr(stream_pump, "Liveness", lambda now: real(now, ping_seconds=0.02, dead_seconds=1.0))

    async def test(viewer: End, source: End, sent_away: asyncio.Future[Farewell]) -> None:
        return

    _, farewell, viewer, source = run(test)
    assert farewell == SILENT
    assert viewer.pings >= 2
    assert source.pings >= 2


def test_a_side_that_takes_nothing_is_not_pinged_and_given_up_later(monkeypatch: pytest.MonkeyPatch) -> None:
    real = stream_core.Liveness
    seconds = {"ping_seconds": 0.02, "dead_seconds": 0.5, "stuck_seconds": 2.0}
    monkeypatch.setattr(stream_pump, "Liveness", lambda now: real(now, **seconds))

    async def test(viewer: End, source: End, sent_away: asyncio.Future[Farewell]) -> None:
        viewer.room = asyncio.Semaphore(0)
        await source.incoming.put(b"flood")

    _, farewell, viewer, source = run(test)
    assert farewell == SILENT
    assert viewer.pings == 0
    # Longer than one that is merely silent.
    assert source.pings >= 4
