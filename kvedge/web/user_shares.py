"""How much of the console one user may have at once: pages, streams, and calls of the API server under way.

Made by `console_app`, in its event loop. On a box one user must not keep the others out; where all is one user's, that
user may have all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

_PAGES: Final = 32
# Calls of the API server under way at once, for all pages.
_CALLS: Final = 8
# One user's share of either.
_PAGES_EACH: Final = 12
_CALLS_EACH: Final = 3


class TooManyPages(Exception):
    """Of the user, or of all; the text is for the user."""


class UserShares:
    """Counts what is open, by user."""

    def __init__(self, *, is_of_many: bool) -> None:
        """`is_of_many`: users that know nothing of each other share it."""
        self._pages_each = _PAGES_EACH if is_of_many else _PAGES
        self._calls_each = _CALLS_EACH if is_of_many else _CALLS
        self._pages: Counter[tuple[str, str]] = Counter()
        self._calls = asyncio.Semaphore(_CALLS)
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._asking: Counter[str] = Counter()

    @contextmanager
    def page(self, what: str, owner: str) -> Iterator[None]:
        """One more page of a sort is open for as long as the block lasts.

        Raises:
            TooManyPages: when there is no room for it.
        """
        if self._pages[what, owner] >= self._pages_each:
            raise TooManyPages("too many pages are open: close one")
        if sum(count for (sort, _), count in self._pages.items() if sort == what) >= _PAGES:
            raise TooManyPages("too many pages of all users are open: try again later")
        self._pages[what, owner] += 1
        try:
            yield
        finally:
            self._pages[what, owner] -= 1
            if not self._pages[what, owner]:
                del self._pages[what, owner]

    @asynccontextmanager
    async def call(self, owner: str) -> AsyncIterator[None]:
        """A call's turn; waits for one."""
        self._asking[owner] += 1
        own = self._turns.setdefault(owner, asyncio.Semaphore(self._calls_each))
        try:
            async with own, self._calls:
                yield
        finally:
            self._asking[owner] -= 1
            if not self._asking[owner]:
                del self._asking[owner], self._turns[owner]
