"""Copies the object store by schedule, and says on the Node how that went and whether a copy had to be put back.

Runs in the API server's event loop, the copying in a thread of its own. Writes two conditions of the Node:
`StoreCopied`, and, until somebody has removed the damaged files, `StoreRestored`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import STORE_COPIED
from kvedge.runtime.background_tasks import background_task
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.requests.write_rules import timestamp
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.apiserver.store.object_store_copies import CopyFailed, StoreCopies
from kvedge.standalone.apiserver.store.object_store_mend import Restored
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 4 * 3600.0
# A full disk is noticed and emptied; the copy that it prevented is not put off until the next turn.
_AFTER_FAILURE_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 20.0
COPIED, RESTORED = STORE_COPIED, "StoreRestored"


class CopyLoop:
    """Makes a copy at the start and every few hours, by a clock that does not jump."""

    def __init__(
        self,
        copies: StoreCopies,
        store: ObjectStore,
        hub: ObjectHub,
        actor: ServerActor,
        node: str,
        now: Callable[[], datetime],
    ) -> None:
        self._copies = copies
        self._store = store
        self._hub = hub
        self._actor = actor
        self._node = ObjectKey("nodes", "", node)
        self._now = now
        self._copied: JsonObject | None = None
        self._reports: WorkLoop[ObjectKey] = WorkLoop("conditions of the object store", self._report)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin with a copy."""
        self._hub.cache.on_change(self._notice)
        self._reports.start()
        self._task = background_task("copies of the object store", self._run)

    def stop(self) -> None:
        self._reports.stop()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            mended = self._store.mended
            try:
                name = await asyncio.to_thread(self._copies.make, self._store)
            except CopyFailed as error:
                log.error("%s", error)
                self._copied = _condition(COPIED, False, "CopyFailed", f"{error}; it is tried again")
                wait = _AFTER_FAILURE_SECONDS
            else:
                where = self._copies.directory / name
                self._copied = _condition(COPIED, True, "CopyMade", f"the newest copy of the object store is {where}")
                wait = PERIOD_SECONDS
            self._reports.add(self._node)
            await self._wait(wait, mended)

    async def _wait(self, seconds: float, mended: int) -> None:
        """Wait, but not when the store was mended since: that is to be told, and copied."""
        end = asyncio.get_running_loop().time() + seconds
        while (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, _LOOK_SECONDS))
            if self._store.mended != mended:
                return

    def _notice(self, change: Change) -> None:
        # The agent makes the Node after the server has begun to serve.
        if change.current.key == self._node and change.type is ChangeType.ADDED:
            self._reports.add(self._node)

    async def _report(self, key: ObjectKey) -> None:
        stored = self._hub.get(key)
        if stored is None:
            return
        restored = await asyncio.to_thread(self._copies.find_last_restored)
        wanted = [condition for condition in (self._copied, make_restored_condition(restored)) if condition]
        now = timestamp(self._now())

        def with_conditions(live: JsonObject) -> JsonObject:
            status = live.setdefault("status", {})
            status["conditions"] = merge_conditions(status.get("conditions") or [], wanted, now)
            return live

        await self._actor.change(stored, with_conditions, "status")


def make_restored_condition(restored: tuple[Restored, Path] | None) -> JsonObject | None:
    """The condition that tells of a store that was put back; `restored` comes with where the damaged files are."""
    if restored is None:
        return None
    what, where = restored
    if not what.copy:
        message = (
            f"the object store was damaged ({what.damage}) and was written anew from memory at {what.restored_at};"
            f" nothing is lost. The damaged files are in {where}: look after the disk, and remove that directory"
        )
        return _condition(RESTORED, True, "WrittenAnew", message)
    message = (
        f"the object store was damaged ({what.damage}) and was put back at {what.restored_at} from {what.copy};"
        f" what was written after {what.copied_at} is lost. The damaged files are in {where}:"
        " remove that directory once they are not needed, and this condition goes at the next start"
    )
    return _condition(RESTORED, True, "StoreDamaged", message)


def merge_conditions(known: list[JsonObject], ours: list[JsonObject], now: str) -> list[JsonObject]:
    """A Node's conditions with ours among them; a time of transition stays while the status does."""
    before = {item.get("type"): item for item in known}
    others = [item for item in known if item.get("type") not in (COPIED, RESTORED)]
    result = list(others)
    for condition in ours:
        old = before.get(condition["type"], {})
        since = old.get("lastTransitionTime", now) if old.get("status") == condition["status"] else now
        beat = old.get("lastHeartbeatTime", now) if old.get("message") == condition["message"] else now
        result.append({**condition, "lastHeartbeatTime": beat, "lastTransitionTime": since})
    return result


def _condition(kind: str, holds: bool, reason: str, message: str) -> JsonObject:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
