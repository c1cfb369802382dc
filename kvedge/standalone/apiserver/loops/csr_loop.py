"""Signs approved requests for client certificates of this API, and removes old requests of every signer.

Runs in the API server's event loop; started by `server_parts`. The decisions are `csr_plan`'s.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.runtime.background_tasks import background_task
from kvedge.standalone.apiserver.access.csr_plan import Fail, Sign, is_old, plan_request
from kvedge.standalone.apiserver.access.csr_rules import REQUESTS
from kvedge.standalone.apiserver.access.pki import Authority
from kvedge.standalone.apiserver.kinds.rules.certificate_request_rules import FAILED
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 600.0


class CsrLoop:
    """Looks at each request when it changes, and at all of them every ten minutes."""

    def __init__(self, hub: ObjectHub, actor: ServerActor, clients: Authority, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._actor = actor
        self._clients = clients
        self._now = now
        self._loop: WorkLoop[ObjectKey] = WorkLoop("certificate signer", self._look)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look at what there is, and from then on at what changes."""
        self._hub.cache.on_change(self._notice)
        self._loop.start()
        self._task = background_task("certificate request rounds", self._add_all_regularly)

    def stop(self) -> None:
        """End."""
        self._loop.stop()
        if self._task is not None:
            self._task.cancel()

    def _notice(self, change: Change) -> None:
        if change.current.key.resource == REQUESTS and change.type is not ChangeType.DELETED:
            self._loop.add(change.current.key)

    async def _add_all_regularly(self) -> None:
        while True:
            for stored in self._hub.cache.in_namespace(REQUESTS):
                self._loop.add(stored.key)
            await asyncio.sleep(_PERIOD_SECONDS)

    async def _look(self, key: ObjectKey) -> None:
        stored = self._hub.get(key)
        if stored is None:
            return
        obj = stored.load()
        if is_old(obj, self._now()):
            await self._actor.delete(stored)
        elif plan_request(obj) is not None:
            await self._actor.change(stored, self._settle, "status")

    def _settle(self, obj: JsonObject) -> JsonObject:
        """The request with its certificate, or with the reason why there is none; decided on what it says now."""
        match plan_request(obj):
            case Sign(request, life):
                pem = self._clients.sign_client(request, life)
                obj.setdefault("status", {})["certificate"] = base64.b64encode(pem).decode()
                log.info("client certificate signed", extra={"facts": {"request": obj["metadata"]["name"]}})
            case Fail(reason):
                failed = {"type": FAILED, "status": "True", "reason": "SignerValidationFailure", "message": reason}
                obj.setdefault("status", {}).setdefault("conditions", []).append(failed)
        return obj
