"""One collection for all who ask within a second.

Used by metrics_server.py, in its event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

# How long an answer is good.
FRESH_SECONDS: Final = 1.0


class SharedAnswer:
    """The answer, and the making of the next one."""

    def __init__(self, make: Callable[[], Awaitable[bytes]], monotonic: Callable[[], float]) -> None:
        self._make = make
        self._monotonic = monotonic
        self._making: asyncio.Task[bytes] | None = None
        self._made = 0.0

    async def get(self) -> bytes:
        """The answer, at most a second old; raises what making it raised."""
        due = self._monotonic() - self._made >= FRESH_SECONDS
        if self._making is None or (self._making.done() and due):
            self._making = asyncio.create_task(self._run())
        # A client that leaves does not take the answer away from others.
        return await asyncio.shield(self._making)

    async def _run(self) -> bytes:
        try:
            return await self._make()
        finally:
            self._made = self._monotonic()
