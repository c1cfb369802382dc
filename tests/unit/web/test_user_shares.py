"""What one user may have of the console, and what is left for the others."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from kvedge.web.user_shares import TooManyPages, UserShares


def open_pages(shares: UserShares, owner: str, stack: ExitStack) -> int:
    """As many as this user gets."""
    for count in range(1000):
        try:
            stack.enter_context(shares.page("feed", owner))
        except TooManyPages:
            return count
    raise AssertionError("there is no end")


def test_one_of_many_gets_a_share_of_the_pages_and_gets_it_again() -> None:
    async def run() -> None:
        shares = UserShares(is_of_many=True)
        with ExitStack() as stack:
            assert [open_pages(shares, name, stack) for name in ("ann", "bob", "cid", "dan")] == [12, 12, 8, 0]
            with shares.page("stream", "dan"), pytest.raises(TooManyPages, match="of all users"):
                stack.enter_context(shares.page("feed", "dan"))
            with pytest.raises(TooManyPages, match="close one"):
                stack.enter_context(shares.page("feed", "ann"))
        with ExitStack() as stack:
            assert open_pages(shares, "ann", stack) == 12

    asyncio.run(run())


def test_a_user_alone_gets_all_pages() -> None:
    async def run() -> None:
        with ExitStack() as stack:
            assert open_pages(UserShares(is_of_many=False), "", stack) == 32

    asyncio.run(run())


def test_calls_that_hang_leave_turns_for_other_users() -> None:
    async def run() -> None:
        shares, release, began = UserShares(is_of_many=True), asyncio.Event(), []

        async def hang(name: str) -> None:
            async with shares.call(name):
                began.append(name)
                await release.wait()

        tasks = [asyncio.create_task(hang("ann")) for _ in range(20)]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(hang("bob")))
        for _ in range(3):
            await asyncio.sleep(0)
        assert began == ["ann"] * 3 + ["bob"]
        release.set()
        await asyncio.gather(*tasks)
        assert began.count("ann") == 20
        assert shares._turns == {}, "nothing is kept of users who have gone"

    asyncio.run(run())
