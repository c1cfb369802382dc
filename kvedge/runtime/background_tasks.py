"""Background work in an event loop: as `background`, for tasks instead of threads.

Used by the servers' own loops and by the handler's connections to launchers. Makes tasks of the running event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kvedge.runtime.background import Pauses, survive, tell_trouble


def background_task(name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """A task of the running event loop whose work begins anew when it raises, until it returns or is cancelled."""

    async def run() -> None:
        pauses = Pauses()
        while True:
            pauses.begin()
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - told, and begun anew
                tell_trouble(name, error)
                await asyncio.sleep(pauses.count_failure())
            else:
                return

    return asyncio.create_task(run(), name=name)


def passing_task(name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """A task for one client's or one connection's work: an error is told once, and nothing begins anew."""

    async def run() -> None:
        with survive(name):
            await work()

    return asyncio.create_task(run(), name=name)
