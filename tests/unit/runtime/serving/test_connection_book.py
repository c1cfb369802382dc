"""The account of connections that both limiters keep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kvedge.runtime.serving import connection_book
from kvedge.runtime.serving.connection_book import Connection, ConnectionBook


class Transport(asyncio.Transport):
    """A connection that only notes whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


def take(book: ConnectionBook, owner: str) -> Connection:
    return book.take_in(asyncio.Protocol(), owner, Transport())


def in_loop(test: Callable[[ConnectionBook], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        book = ConnectionBook()
        try:
            await test(book)
        finally:
            book.close()

    asyncio.run(run())


def test_the_one_that_waits_longest_comes_first_by_owner() -> None:
    async def look(book: ConnectionBook) -> None:
        first, second, other = take(book, "joe"), take(book, "joe"), take(book, "ann")
        assert book.longest_idle("joe") is None, "a new one is not given up for itself"
        for connection in (first, second, other):
            book.rest(connection)
        assert book.longest_idle("joe") is first
        book.work(first)
        assert (book.longest_idle("joe"), book.longest_at_work("joe")) == (second, first)
        book.rest(first)
        assert book.longest_idle("joe") is second
        assert (book.count("joe"), book.count("ann"), len(book)) == (2, 1, 3)
        assert set(book.idle_owners()) == {"joe", "ann"}

    in_loop(look)


def test_one_that_is_handed_over_counts_for_its_new_owner() -> None:
    async def look(book: ConnectionBook) -> None:
        connection, other = take(book, ""), take(book, "")
        for each in (connection, other):
            book.rest(each)
        book.hand_over(connection, "ann")
        assert (book.count(""), book.count("ann"), book.longest_idle(""), book.longest_idle("ann")) == (
            1,
            1,
            other,
            None,
        )
        book.work(connection)
        assert (book.longest_at_work("ann"), book.longest_at_work("")) == (connection, None)
        book.forget(connection.protocol)
        book.hand_over(connection, "joe")
        assert (book.count("ann"), book.count("joe"), len(book)) == (0, 0, 1), "one that is gone is nobody's"

    in_loop(look)


def test_one_that_is_given_up_is_closed_and_counts_no_more() -> None:
    async def look(book: ConnectionBook) -> None:
        connection = take(book, "joe")
        book.work(connection)
        book.give_up(connection)
        book.rest(connection)
        assert connection.transport.is_closing()
        assert (book.count("joe"), len(book), list(book.idle_owners())) == (0, 0, [])
        book.forget(connection.protocol)
        assert book.count("joe") == 0, "the end of one that was given up is told, too"

    in_loop(look)


def test_those_that_are_closed_by_somebody_else_are_forgotten() -> None:
    async def look(book: ConnectionBook) -> None:
        closed, left = take(book, "joe"), take(book, "joe")
        closed.transport.abort()
        book.forget_closed()
        assert (book.of(closed.protocol), book.of(left.protocol), book.count("joe")) == (None, left, 1)

    in_loop(look)


def test_only_those_over_which_nothing_ever_came_are_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_book, "FIRST_REQUEST_SECONDS", 0.05)
    monkeypatch.setattr(connection_book, "_SWEEP_SECONDS", 0.01)

    async def look(book: ConnectionBook) -> None:
        silent, used = take(book, "joe"), take(book, "joe")
        book.rest(silent)
        book.work(used)
        book.rest(used)
        book._sweep()
        async with asyncio.timeout(20):
            while not silent.transport.is_closing():
                await asyncio.sleep(0.01)
        assert (used.transport.is_closing(), len(book)) == (False, 1)

    in_loop(look)
