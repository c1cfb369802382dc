"""Finds out whether the servers behind APIServices answer, says so in their status, and remembers what they serve.

Runs in the API server's event loop. Looks when something changed, and every now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import aiohttp
import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.aggregation.aggregation_proxy import AggregationProxy
from kvedge.standalone.apiserver.aggregation.aggregation_rules import (
    API_SERVICES,
    AggregatedApi,
    available_condition,
    condition_of,
    read_api_service,
)
from kvedge.standalone.apiserver.aggregation.service_resolver import NoBackend
from kvedge.standalone.apiserver.kinds.discovery_manifest import AggregatedVersion
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.requests.request_context import SERVER
from kvedge.standalone.apiserver.requests.write_rules import timestamp
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.wire.api_errors import ApiError
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

_ASK_SECONDS: Final = 5.0
_WHILE_AVAILABLE: Final = 30.0
_WHILE_NOT: Final = 2.0
_BEHIND: Final = frozenset({"services", "endpoints", "endpointslices.discovery.k8s.io"})


class AvailabilityLoop:
    """Keeps the Available condition of APIServices true, and their resource lists for discovery."""

    def __init__(
        self, hub: ObjectHub, actor: ServerActor, proxy: AggregationProxy, now: Callable[[], datetime]
    ) -> None:
        self._hub = hub
        self._actor = actor
        self._proxy = proxy
        self._now = now
        self._known: dict[str, AggregatedVersion] = {}
        self._loop: WorkLoop[str] = WorkLoop("API service availability", self._check)
        self._planned: dict[str, asyncio.TimerHandle] = {}

    def versions(self) -> list[AggregatedVersion]:
        """What other servers are known to serve."""
        return list(self._known.values())

    def start(self) -> None:
        self._hub.cache.on_change(self._notice)
        self._look_at_all()
        self._loop.start()

    def stop(self) -> None:
        for timer in self._planned.values():
            timer.cancel()
        self._loop.stop()

    def _look_at_all(self) -> None:
        for stored in self._hub.cache.in_namespace(API_SERVICES):
            self._loop.add(stored.key.name)

    def _notice(self, change: Change) -> None:
        resource = change.current.key.resource
        if resource in _BEHIND:
            self._look_at_all()
        elif resource == API_SERVICES and (
            change.type is ChangeType.DELETED or _spec(change.previous) != _spec(change.current)
        ):
            self._loop.add(change.current.key.name)

    async def _check(self, name: str) -> None:
        timer = self._planned.pop(name, None)
        if timer is not None:
            timer.cancel()
        stored = self._hub.get(ObjectKey(API_SERVICES, "", name))
        if stored is None:
            self._known.pop(name, None)
            return
        document = stored.load()
        api = read_api_service(document)
        if api is None:
            self._known.pop(name, None)
            await self._report(document, True, "Local", "Local APIServices are always available")
            return
        holds, reason, message = await self._ask(api)
        await self._report(document, holds, reason, message)
        loop = asyncio.get_running_loop()
        self._planned[name] = loop.call_later(_WHILE_AVAILABLE if holds else _WHILE_NOT, self._loop.add, name)

    async def _ask(self, api: AggregatedApi) -> tuple[bool, str, str]:
        before = self._known.get(api.name)
        resources = tuple(before.resources) if before else ()
        problem: tuple[str, str] | None = None
        try:
            status, body = await self._proxy.get(api, f"/apis/{api.group}/{api.version}", SERVER, _ASK_SECONDS)
            resources = _resources(status, body)
        except NoBackend as error:
            problem = ("MissingEndpoints" if "endpoints" in str(error) else "ServiceNotFound", str(error))
        except (aiohttp.ClientError, OSError, TimeoutError, ApiError, ValueError) as error:
            text = str(error) or type(error).__name__
            problem = ("FailedDiscoveryCheck", f"failing or missing response from {api.name}: {text}")
        self._known[api.name] = AggregatedVersion(
            api.group, api.version, api.group_priority, api.version_priority, problem is None, resources
        )
        return (False, *problem) if problem else (True, "Passed", "all checks passed")

    async def _report(self, document: JsonObject, holds: bool, reason: str, message: str) -> None:
        before = condition_of(document)
        condition = available_condition(holds, reason, message, before, timestamp(self._now()))
        if condition == before:
            return
        stored = self._hub.get(ObjectKey(API_SERVICES, "", document["metadata"]["name"]))
        if stored is None:
            return

        def with_condition(live: JsonObject) -> JsonObject:
            status = live.setdefault("status", {})
            others = [item for item in status.get("conditions") or [] if item.get("type") != "Available"]
            status["conditions"] = [*others, condition]
            return live

        await self._actor.change(stored, with_condition, "status")


def _resources(status: int, body: bytes) -> tuple[JsonObject, ...]:
    if status != 200:
        raise ValueError(f"the server answered {status}")
    document = msgspec.json.decode(body)
    if not isinstance(document, dict) or not isinstance(document.get("resources"), list):
        raise ValueError("the server answered with no resource list")
    return tuple(document["resources"])


def _spec(stored: Stored | None) -> JsonObject | None:
    return stored.load().get("spec") if stored is not None else None
