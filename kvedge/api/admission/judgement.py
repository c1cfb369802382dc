"""Where webhooks judge: in threads of their own, as the event loop has consoles to serve.

Used by all webhooks. Anybody may send a review, and judging a large one takes a while: large ones wait for each other,
and small ones, as honest users write them, only for small ones. Nor do they take the threads in which API calls wait.
Webhooks that ask the API server have threads for that, which nothing else takes: a call of a user may hold one of the
server's own threads until a webhook has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

# A VM of some hundred lines with its fields' managers and both its states is half of it.
SMALL_BYTES: Final = 128 * 1024
# Questions to the API server under way at once; more wait their turn.
_QUESTIONS: Final = 8


class Judgement:
    """Two threads that judge and some that ask, each begun when it is first needed; used in one event loop."""

    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(1, "admission")
        self._large = ThreadPoolExecutor(1, "admission-large")
        self._asking = ThreadPoolExecutor(_QUESTIONS, "admission-asking")

    async def ask(self, judge: Callable[[bytes], T], body: bytes) -> T:
        """What `judge` makes of a body. Raises what it raises."""
        lane = self._small if len(body) <= SMALL_BYTES else self._large
        return await asyncio.get_running_loop().run_in_executor(lane, judge, body)

    async def ask_server(self, question: Callable[[], T]) -> T:
        """What `question` learns, which waits for the API server. Raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._asking, question)

    def close(self) -> None:
        """Drop what waits, and end the threads when they are done."""
        for lane in (self._small, self._large, self._asking):
            lane.shutdown(wait=False, cancel_futures=True)
