"""All who ask within a second share one answer, and one that fails is made anew."""

from __future__ import annotations

import asyncio

import pytest

from kvedge.api.metrics.shared_answer import SharedAnswer


class Made:
    """Counts how often it was made; the first time it fails when it is told to."""

    def __init__(self, *, fails: bool = False) -> None:
        self.count, self.fails, self.now = 0, fails, 100.0
        self.shared = SharedAnswer(self.make, lambda: self.now)

    async def make(self) -> bytes:
        self.count += 1
        if self.fails and self.count == 1:
            raise ValueError("no")
        return str(self.count).encode()


def test_who_asks_within_a_second_gets_the_same() -> None:
    async def test() -> None:
        made = Made()
        assert await asyncio.gather(*(made.shared.get() for _ in range(5))) == [b"1"] * 5
        made.now += 0.5
        assert await made.shared.get() == b"1"
        made.now += 0.5
        assert await made.shared.get() == b"2"

    asyncio.run(test())


def test_a_failure_is_that_of_all_who_asked_and_of_none_later() -> None:
    async def test() -> None:
        made = Made(fails=True)
        with pytest.raises(ValueError, match="no"):
            await made.shared.get()
        made.now += 1.0
        assert await made.shared.get() == b"2"

    asyncio.run(test())


def test_who_leaves_takes_nothing_from_others() -> None:
    async def test() -> None:
        made = Made()
        leaving = asyncio.create_task(made.shared.get())
        staying = asyncio.create_task(made.shared.get())
        await asyncio.sleep(0)
        leaving.cancel()
        assert await staying == b"1"

    asyncio.run(test())
