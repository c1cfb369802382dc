"""A watch: the chunked response that never ends by itself.

Called by the REST routes. Talks to one client; reads the cache.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

import msgspec
from aiohttp import web

from kvedge.standalone.apiserver.requests.list_rules import ListOptions, selects
from kvedge.standalone.apiserver.requests.object_encoding import Encoder
from kvedge.standalone.apiserver.requests.watch_queue import Delivery, WatchQueue, judge_change
from kvedge.standalone.apiserver.requests.watch_sender import Event, WatchSender
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import ApiError, Expired

# Without a word from the client a watch ends after half an hour to an hour, so that clients do not all return at once.
_MIN_SECONDS: Final = 1800
_BOOKMARK_SECONDS: Final = 60


class WatchStream:
    """One watch of one client."""

    def __init__(
        self, cache: ObjectCache, encoder: Encoder, namespace: str, options: ListOptions, now: Callable[[], datetime]
    ) -> None:
        self._cache = cache
        self._encoder = encoder
        self._namespace = namespace
        self._options = options
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._queue: WatchQueue | None = None

    async def serve(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Send events until the time is up, the client is gone, or it is too slow."""
        history = self._cache.find_history(self._encoder.kind.storage)
        queue = self._queue = WatchQueue(
            self._namespace, self._options, lambda: _cut_off(request), lambda: history.compacted
        )
        # Registered and read in one step of the loop: nothing can come between.
        history.listeners.add(queue.offer)
        try:
            try:
                first = self._choose_first(queue)
            except Expired as error:
                await response.prepare(request)
                await response.write(error_event(error))
                return
            await response.prepare(request)
            sender = WatchSender(request, response)
            await sender.send(first)
            await self._follow(sender, queue)
        except ConnectionResetError:
            # The client is gone, which is how most watches end.
            return
        finally:
            history.listeners.discard(queue.offer)

    def end(self) -> None:
        """Have the watch end as if its time were up."""
        if self._queue is not None:
            self._queue.close()

    def _choose_first(self, queue: WatchQueue) -> Iterable[Event]:
        """What the client is sent before anything new: the present state. What it missed is put into the queue."""
        options = self._options
        start = self._cache.revision
        if options.send_initial or (options.send_initial is None and not options.revision):
            selected = self._select()
            queue.begin_state(start, sum(len(stored.body) for stored in selected))
            return self._make_initial(selected, start, self._now())
        if not options.revision:
            return ()
        if options.revision > start:
            # Only a store that was put back to an older state can have forgotten it.
            raise Expired(f"too old resource version: {options.revision} is of another life of this store ({start})")
        missed = self._cache.find_history(self._encoder.kind.storage).since(options.revision)
        queue.fill(
            Delivery(change, kind)
            for change in missed
            if (kind := judge_change(change, self._namespace, options)) is not None
        )
        return ()

    def _make_initial(self, objects: list[Stored], revision: int, now: datetime) -> Iterable[Event]:
        for stored in objects:
            yield Event(self._encoder.initial(stored, now))
        if self._options.send_initial and self._options.bookmarks:
            yield Event(self._encoder.bookmark(revision, ends_initial=True))

    def _select(self) -> list[Stored]:
        objects = self._cache.in_namespace(self._encoder.kind.storage, self._namespace)
        return [stored for stored in objects if selects(self._options, stored)]

    async def _follow(self, sender: WatchSender, queue: WatchQueue) -> None:
        seconds = self._options.timeout_seconds or _MIN_SECONDS * (1 + random.random())
        end = self._loop.time() + seconds
        bookmark_at = self._loop.time() + _BOOKMARK_SECONDS
        while True:
            now = self._loop.time()
            if self._options.bookmarks and (now >= bookmark_at or now >= end):
                await self._send_bookmark(sender, queue)
                bookmark_at = now + _BOOKMARK_SECONDS
            if now >= end or queue.closed:
                return
            until = min(end, bookmark_at) if self._options.bookmarks else end
            await sender.send(self._encode(await queue.take(until - now)))

    async def _send_bookmark(self, sender: WatchSender, queue: WatchQueue) -> None:
        """Tell the client how far it has come, once everything up to here was sent: the queue is seen to be empty in
        the step in which the revision is read.
        """
        await sender.send(self._encode(queue.take_now()))
        if queue.is_empty:
            await sender.send([Event(self._encoder.bookmark(self._cache.revision))])

    def _encode(self, deliveries: list[Delivery]) -> Iterable[Event]:
        now = self._now()
        for change, kind in deliveries:
            event = self._encoder.event(change, kind, now)
            yield Event(event, is_shared=event is change.encoded.get(self._encoder.label(kind)))


def error_event(error: ApiError) -> bytes:
    """An ERROR event."""
    return b'{"type":"ERROR","object":' + msgspec.json.encode(error.status()) + b"}\n"


def _cut_off(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
