"""The kinds of metrics.k8s.io: what the node and its Pods use, as `kubectl top` asks for it.

Called by the dispatcher. The figures are the node agent's; all who ask at the same time share one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

import msgspec
from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.runtime.clock import rfc3339
from kvedge.standalone.apiserver.kinds.groups.metrics import KINDS
from kvedge.standalone.apiserver.requests import list_rules
from kvedge.standalone.apiserver.requests.object_encoding import Encoder, ListFacts
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.routes.resource_routes import json_response
from kvedge.standalone.apiserver.routes.usage_source import MeasuredUsage, NoUsage, Usage, UsageSource
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import ObjectKey, Stored
from kvedge.standalone.apiserver.wire.api_errors import NotFound, ServiceUnavailable
from kvedge.standalone.apiserver.wire.media_types import choose_form

_KIB: Final = 1024


class UsageRoutes:
    """Serves NodeMetrics and PodMetrics."""

    def __init__(self, hub: ObjectHub, source: UsageSource | None, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._source = source
        self._now = now
        self._measuring: asyncio.Task[MeasuredUsage] | None = None

    async def serve(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """Answer get and list.

        Raises:
            NotFound: there are no figures of what is asked for.
            ServiceUnavailable: there are none at all.
        """
        options = list_rules.list_options(context.kind, request.query)
        wanted = choose_form(request.headers.get("Accept", ""))
        encoder = Encoder(
            context.kind, wanted.form, request.query.get("includeObject", "") or "Metadata", wanted.version
        )
        measured = await self._measure()
        found = [self._tell(context, stored, measured) for stored in self._objects(context)]
        told = [stored for stored in found if stored is not None]
        if context.target.verb == "get":
            for stored in told:
                if stored.key.name == context.target.name:
                    return json_response(encoder.one(stored, self._now()), 200, context)
            raise NotFound(context.error_target)
        chosen = [stored for stored in told if list_rules.selects(options, stored)]
        page = list_rules.page_of(chosen, options, self._hub.cache.revision)
        facts = ListFacts(self._hub.cache.revision, page.token, page.remaining)
        return json_response(encoder.many(page.objects, facts, self._now()), 200, context)

    async def _measure(self) -> MeasuredUsage:
        if self._source is None:
            raise ServiceUnavailable("no node agent runs here that could measure what is used")
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(asyncio.to_thread(self._source.measure_usage))
        try:
            # A client that leaves does not take the answer away from others.
            return await asyncio.shield(self._measuring)
        except (NoUsage, OSError) as error:
            raise ServiceUnavailable(str(error)) from error

    def _objects(self, context: RequestContext) -> Iterable[Stored]:
        """The Pods or Nodes themselves, in order."""
        return self._hub.cache.in_namespace(context.kind.plural, context.namespace)

    def _tell(self, context: RequestContext, stored: Stored, measured: MeasuredUsage) -> Stored | None:
        if context.kind == NODES:
            if stored.key.name != measured.node:
                return None
            document = node_metrics(stored.load(), measured)
        else:
            used = measured.pods.get(stored.meta.uid)
            if used is None:
                return None
            document = pod_metrics(stored.load(), measured, used)
        key = ObjectKey(context.kind.storage, stored.key.namespace, stored.key.name)
        return Stored(key, self._hub.cache.revision, msgspec.json.encode(document))


NODES, PODS = KINDS


def node_metrics(node: JsonObject, measured: MeasuredUsage) -> JsonObject:
    """The NodeMetrics of a Node."""
    return {**_head(NODES.kind, NODES.api_version, node, measured), "usage": _usage(measured.node_usage)}


def pod_metrics(pod: JsonObject, measured: MeasuredUsage, used: Usage) -> JsonObject:
    """The PodMetrics of a Pod. Its containers share a cgroup: where there are several they have one entry together."""
    names = [container["name"] for container in (pod.get("spec") or {}).get("containers") or []]
    entry = {"name": "+".join(names), "usage": _usage(used)}
    return {**_head(PODS.kind, PODS.api_version, pod, measured), "containers": [entry]}


def _head(kind: str, api_version: str, obj: JsonObject, measured: MeasuredUsage) -> JsonObject:
    theirs, moment = obj["metadata"], rfc3339(measured.moment)
    metadata = {key: theirs[key] for key in ("name", "namespace", "labels") if theirs.get(key)}
    return {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {**metadata, "creationTimestamp": moment},
        "timestamp": moment,
        "window": f"{measured.window:.3f}s",
    }


def _usage(used: Usage) -> JsonObject:
    return {"cpu": f"{used.cpu}n", "memory": f"{used.memory // _KIB}Ki"}
