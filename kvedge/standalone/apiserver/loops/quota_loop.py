"""Writes into each ResourceQuota's status what its namespace uses.

Runs in the API server's event loop; started by `server_parts`. The count is the ledger's: the status is for readers,
nothing is decided by it.
"""

from __future__ import annotations

import contextlib

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.quota_ledger import QuotaLedger
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import ObjectKey
from kvedge.standalone.apiserver.store.stored_bounds import QUOTAS
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.writing.server_actor import ServerActor


class QuotaLoop:
    """Keeps the status of quotas true."""

    def __init__(self, hub: ObjectHub, actor: ServerActor, ledger: QuotaLedger) -> None:
        self._hub = hub
        self._actor = actor
        self._ledger = ledger
        self._loop: WorkLoop[ObjectKey] = WorkLoop("quota status", self._write)

    def start(self) -> None:
        """Look at every quota once, and from then on at those whose count changes."""
        self._ledger.on_change(self._loop.add)
        for stored in self._hub.cache.in_namespace(QUOTAS):
            self._loop.add(stored.key)
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop()

    async def _write(self, key: ObjectKey) -> None:
        stored, tally = self._hub.get(key), self._ledger.tally(key)
        if stored is None or tally is None:
            return
        wanted = {"hard": {name: amount.text for name, amount in tally.hard.items()}, "used": tally.show_used()}
        status = stored.load().get("status")
        if status == wanted or (not tally.hard and not status):
            return

        def set_status(live: JsonObject) -> JsonObject:
            live["status"] = wanted
            return live

        # A spec without the types of its kind cannot be written at all. `stored_bounds` has told of it, and when its
        # owner applies it anew the ledger tells of the change.
        with contextlib.suppress(BadRequest):
            await self._actor.change(stored, set_status, "status")
