"""Removes Events that nobody will read any more, so that a box does not fill up with them.

Runs in the API server's event loop; started by `server_parts`. The decision is `find_expired_events`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from kvedge.runtime.background_tasks import background_task
from kvedge.standalone.apiserver.requests.write_rules import parse_timestamp
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import ApiError
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

# As long as the real API server keeps them.
LIFETIME: Final = timedelta(hours=1)
# Something that fails in a tight loop must not fill the store within the hour.
MOST: Final = 5000
_PERIOD_SECONDS: Final = 60.0


class ExpiryLoop:
    """Looks at the Events once a minute."""

    def __init__(self, hub: ObjectHub, actor: ServerActor, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._actor = actor
        self._now = now
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = background_task("event expiry", self._run)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            for stored in find_expired_events(self._hub.cache.in_namespace("events"), self._now()):
                try:
                    await self._actor.delete(stored)
                except ApiError:
                    # Gone already or busy: the next round looks again.
                    continue
            await asyncio.sleep(_PERIOD_SECONDS)


def find_expired_events(events: Sequence[Stored], now: datetime) -> list[Stored]:
    """The Events whose last occurrence is too long ago, and the oldest of those that are too many."""
    oldest_first = sorted((find_last_occurrence(stored), stored.revision, stored) for stored in events)
    surplus = max(0, len(oldest_first) - MOST)
    return [stored for index, (seen, _, stored) in enumerate(oldest_first) if index < surplus or now - seen > LIFETIME]


def find_last_occurrence(event: Stored) -> datetime:
    """When the thing that an Event tells of last happened."""
    obj = event.load()
    series = obj.get("series") or {}
    texts = (series.get("lastObservedTime"), obj.get("lastTimestamp"), obj.get("eventTime"))
    moments = [parse_timestamp(obj["metadata"]["creationTimestamp"])]
    for text in texts:
        try:
            moments.append(parse_timestamp(str(text)))
        except ValueError:
            # Absent, or not a time: the others tell.
            continue
    return max(moments)
