"""Waits for what cannot be called back, such as a thread's work, also when whoever waits is cancelled.

Used where something is counted until then: the turn of `large_work`, and what `quota_ledger` has taken for a write. A
client that hangs up cancels its request; what the request began goes on, and so does what it costs. No I/O.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any


async def outlast(future: asyncio.Future[Any]) -> None:
    """Return once the future is done, however often the caller is cancelled; called when the caller was cancelled."""
    while not future.done():
        # `asyncio.wait` leaves the future as it is.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future])
