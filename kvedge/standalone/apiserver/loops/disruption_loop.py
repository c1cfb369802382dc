"""Writes into each PodDisruptionBudget's status how many of its Pods may be evicted.

Runs in the API server's event loop; started by `server_parts`. It plays Kubernetes' disruption controller, which a box
has not. An eviction goes by the status, and takes from it what it was granted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.loops.disruption_plan import BUDGETS, PodFacts, chooses, plan_status, pod_facts
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.wire.api_errors import NotFound
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

_PODS = "pods"


class DisruptionLoop:
    """Keeps the status of budgets true: of all in a namespace when a Pod or a budget of it changes."""

    def __init__(self, hub: ObjectHub, actor: ServerActor, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._actor = actor
        self._now = now
        self._loop: WorkLoop[str] = WorkLoop("disruption budgets", self._settle)
        # When grants run out, by budget.
        self._moments: dict[ObjectKey, datetime] = {}

    def start(self) -> None:
        """Look at every budget once, and from then on at those whose Pods change."""
        self._hub.cache.on_change(self._notice)
        for stored in self._hub.cache.in_namespace(BUDGETS):
            self._loop.add(stored.key.namespace)
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop()

    def _notice(self, change: Change) -> None:
        key = change.current.key
        if key.resource == BUDGETS and change.type is ChangeType.DELETED:
            self._moments.pop(key, None)
        if key.resource == BUDGETS or (key.resource == _PODS and self._hub.cache.find_history(BUDGETS).objects):
            self._loop.add(key.namespace)

    async def _settle(self, namespace: str) -> None:
        budgets = self._hub.cache.in_namespace(BUDGETS, namespace)
        pods = self._hub.cache.in_namespace(_PODS, namespace) if budgets else []
        known: dict[str, PodFacts] = {}
        for stored in budgets:
            with contextlib.suppress(NotFound):
                await self._write(stored, pods, known)
            # However many budgets and Pods there are, others are served in between.
            await asyncio.sleep(0)

    async def _write(self, stored: Stored, pods: list[Stored], known: dict[str, PodFacts]) -> None:
        budget = stored.load()
        chosen = [self._facts(pod, known) for pod in pods if chooses(budget, pod.meta.labels)]
        status, again = plan_status(budget, chosen, self._now())
        self._schedule_return(stored.key, again)
        if budget.get("status") == status:
            return

        def set_status(live: JsonObject) -> JsonObject:
            # From what lies there now: an eviction may have been granted meanwhile.
            live["status"], _ = plan_status(live, chosen, self._now())
            return live

        await self._actor.change(stored, set_status, "status")

    def _schedule_return(self, key: ObjectKey, moment: datetime | None) -> None:
        """Look at the budget again when a grant runs out, once for each moment."""
        if moment is None:
            self._moments.pop(key, None)
        elif self._moments.get(key) != moment:
            self._moments[key] = moment
            self._loop.add_after(key.namespace, max(1.0, (moment - self._now()).total_seconds()))

    @staticmethod
    def _facts(pod: Stored, known: dict[str, PodFacts]) -> PodFacts:
        if pod.key.name not in known:
            known[pod.key.name] = pod_facts(pod.load())
        return known[pod.key.name]
