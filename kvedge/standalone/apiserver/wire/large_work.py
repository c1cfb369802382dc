"""Work of a client's size, out of the event loop: only a client that sends much waits for it.

One `LargeWork` per server; each request's context has the lane of whoever pays for it (`payer`). Small work, as nearly
all is, is done at once where it is asked for. Large work is done in one of two threads, one piece at a time for each
payer. kvedge's roles and the server itself have a third thread, so that no number of clients delays them. Only pure
functions go there: caches and kinds belong to the event loop.

A client that hangs up gets no second thread by that: its request lasts until the thread has done its piece, and what
is counted for the request (its turn, its bytes in flight) counts until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from kvedge.standalone.apiserver.wire.outlasting import outlast

T = TypeVar("T")

# In bytes of JSON. A VM with its status and its fields' managers has 10 KB; the worst 16 KB take a tenth of a second.
SMALL_BYTES: Final = 16 * 1024
# Python threads take turns: with each more the event loop would wait longer for its own.
_THREADS: Final = 2
_OWN_THREADS: Final = 1


class Lane(Protocol):
    """Where the work of one user is done."""

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """What `work` returns, or raises, which has to do with so many bytes of JSON."""


class AtOnce:
    """Does all work where it is asked for."""

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """What it returns."""
        return work()


@dataclass
class _Turn:
    """The next of a user's pieces of work; `asked` counts those that wait or are done."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: int = 0


class _Piece(Generic[T]):
    """A piece of work in the executor's queue, which keeps what is cancelled until a thread comes by."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work

    def __call__(self) -> T:
        assert self._work is not None, "a piece that was dropped is never begun"
        return self._work()

    def drop(self) -> None:
        """Let go of the work, and of the client's body with it."""
        self._work = None


class LargeWork:
    """The threads, begun when they are first needed, and the users who wait for them. Used in one event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "kvedge-large-work")
        self._own_threads = ThreadPoolExecutor(_OWN_THREADS, "kvedge-own-work")
        self._turns: dict[str, _Turn] = {}

    def lane(self, user: str, *, own: bool = False) -> Lane:
        """The lane of a user; `own` says that it is the server, or one of kvedge's roles."""
        return _UserLane(self, user, own)

    async def run(self, user: str, work: Callable[[], T], *, own: bool = False) -> T:
        """Do a large piece of a user's work, after those that the same user has asked for before."""
        turn = self._turns.setdefault(user, _Turn())
        turn.asked += 1
        try:
            async with turn.lock:
                return await self._run_in_thread(self._own_threads if own else self._threads, _Piece(work))
        finally:
            turn.asked -= 1
            # There may be any number of users.
            if not turn.asked:
                del self._turns[user]

    @staticmethod
    async def _run_in_thread(threads: ThreadPoolExecutor, piece: _Piece[T]) -> T:
        job = threads.submit(piece)
        future = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if job.cancel():
                piece.drop()
            await outlast(future)
            raise

    def close(self) -> None:
        """Drop what waits, and end the threads when they are done."""
        for threads in (self._threads, self._own_threads):
            threads.shutdown(wait=False, cancel_futures=True)


class _UserLane:
    def __init__(self, work: LargeWork, user: str, own: bool) -> None:
        self._work = work
        self._user = user
        self._own = own

    async def run(self, size: int, work: Callable[[], T]) -> T:
        if size <= SMALL_BYTES:
            return work()
        return await self._work.run(self._user, work, own=self._own)
