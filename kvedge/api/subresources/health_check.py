"""The aggregated API's /healthz: whether the API server answers, asked once for all who want to know at a time.

Used by subresource_server.py in the server's event loop. Anybody may ask, and each question takes a call and a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from kvedge.api.subresources.status_message import Refusal
from kvedge.resources.codec import JsonObject

# How long an answer is good.
FRESH_SECONDS: Final = 1.0
Answer: TypeAlias = tuple[int, JsonObject]


class HealthCheck:
    """One answer, and the question for the next one."""

    def __init__(self, version: Callable[[], Awaitable[str]], monotonic: Callable[[], float] = time.monotonic) -> None:
        """`version` asks the API server for its version, and raises Refusal."""
        self._version = version
        self._monotonic = monotonic
        self._asking: asyncio.Task[Answer] | None = None
        self._answered = 0.0

    async def answer(self) -> Answer:
        """HTTP status and document, at most a second old."""
        if self._asking is None or (self._asking.done() and self._monotonic() - self._answered >= FRESH_SECONDS):
            self._asking = asyncio.create_task(self._ask())
        # A client that leaves does not take the answer away from others.
        return await asyncio.shield(self._asking)

    async def _ask(self) -> Answer:
        try:
            server = {"connectivity": "ok", "version": await self._version()}
            return 200, {"apiserver": server, "config-resource-version": ""}
        except Refusal as error:
            return 500, {"apiserver": {"connectivity": "failed", "error": error.message}}
        finally:
            self._answered = self._monotonic()
