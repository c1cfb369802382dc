"""The subresources that only Pods have and that are no streams: log and binding.

Called by the dispatcher. Logs come from the node agent's `LogSource`; a binding is a write like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.whole_numbers import INT64, whole_number
from kvedge.standalone.apiserver.requests import write_rules
from kvedge.standalone.apiserver.requests.request_body import read_object
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.requests.request_target import is_true
from kvedge.standalone.apiserver.routes.log_pieces import LogPieces
from kvedge.standalone.apiserver.routes.log_source import LogRequest, LogSource
from kvedge.standalone.apiserver.routes.resource_routes import json_response
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, Conflict, MethodNotAllowed, NotFound
from kvedge.standalone.apiserver.writing.object_writer import ObjectWriter


class PodRoutes:
    """Serves pods/log and pods/binding."""

    def __init__(
        self,
        hub: ObjectHub,
        writer: ObjectWriter,
        log_source: LogSource | None,
    ) -> None:
        self._hub = hub
        self._writer = writer
        self._log_source = log_source

    async def log(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """GET pods/<name>/log."""
        if context.target.verb != "get":
            raise MethodNotAllowed()
        pod = self._pod(context)
        wanted = log_request(pod, request.query, self._writer.now())
        if self._log_source is None:
            raise BadRequest("no node agent runs here that could give out the logs of containers")
        return await _stream(request, LogPieces(self._log_source, wanted))

    async def bind(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """POST pods/<name>/binding: put the Pod on a node."""
        if context.target.verb != "create":
            raise MethodNotAllowed()
        node = ((await read_object(request, context)).get("target") or {}).get("name")
        if not node:
            raise BadRequest("target.name: Required value")

        def bind_pod(pod: JsonObject) -> JsonObject:
            spec = pod["spec"]
            if pod["metadata"].get("deletionTimestamp"):
                why = f"pod {context.target.name} is being deleted, cannot be assigned to a host"
                raise Conflict(write_rules.target_of(context.kind, context.target.name), why)
            if spec.get("nodeName"):
                why = f'pod {context.target.name} is already assigned to node "{spec["nodeName"]}"'
                raise Conflict(write_rules.target_of(context.kind, context.target.name), why)
            spec["nodeName"] = node
            conditions = pod.setdefault("status", {}).setdefault("conditions", [])
            scheduled = {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": write_rules.timestamp(self._writer.now()),
            }
            conditions[:] = [item for item in conditions if item.get("type") != "PodScheduled"] + [scheduled]
            return pod

        await self._writer.change(context, bind_pod)
        return json_response(success_status(), 201, context)

    def _pod(self, context: RequestContext) -> JsonObject:
        stored = self._hub.get(context.key)
        if stored is None:
            raise NotFound(context.error_target)
        return stored.load()


async def _stream(request: web.BaseRequest, pieces: LogPieces) -> web.StreamResponse:
    """Stream until the log or the client ends."""
    pieces.start()
    try:
        piece = await pieces.read()
        if piece is None and pieces.failure is not None:
            raise BadRequest(str(pieces.failure))
        response = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
        await response.prepare(request)
        while piece is not None:
            await response.write(piece)
            piece = await pieces.read()
        return response
    finally:
        pieces.stop()


def log_request(pod: JsonObject, query: Mapping[str, str], now: datetime) -> LogRequest:
    """What a request for a Pod's log means.

    Raises:
        BadRequest: it names no container where there are several, or one that is not there, or an option is wrong.
    """
    metadata = pod["metadata"]
    container = choose_container(pod, query.get("container", ""))
    return LogRequest(
        namespace=metadata["namespace"],
        pod=metadata["name"],
        pod_uid=metadata["uid"],
        container=container,
        follow=is_true(query.get("follow", "")),
        tail_lines=_number(query, "tailLines"),
        since=_read_since(query, now),
        limit_bytes=_number(query, "limitBytes"),
        timestamps=is_true(query.get("timestamps", "")),
        previous=is_true(query.get("previous", "")),
    )


def choose_container(pod: JsonObject, container: str) -> str:
    """The container that is meant: the one that is named, or the only one.

    Raises:
        BadRequest: none is named where there are several, or one that is not there.
    """
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    names = [item["name"] for group in ("containers", "initContainers") for item in spec.get(group) or []]
    if not container:
        plain = [item["name"] for item in spec.get("containers") or []]
        if len(plain) != 1:
            listed = " ".join(names)
            raise BadRequest(
                f"a container name must be specified for pod {metadata['name']}, choose one of: [{listed}]"
            )
        container = plain[0]
    if container not in names:
        raise BadRequest(f"container {container} is not valid for pod {metadata['name']}")
    return container


def _read_since(query: Mapping[str, str], now: datetime) -> datetime | None:
    seconds, time = _number(query, "sinceSeconds"), query.get("sinceTime", "")
    if seconds is not None and time:
        raise BadRequest("at most one of `sinceTime` or `sinceSeconds` may be specified")
    if seconds is not None:
        return write_rules.moment_after(now, -seconds)
    if not time:
        return None
    try:
        return write_rules.parse_timestamp(time)
    except ValueError as error:
        raise BadRequest(f"sinceTime: {error}") from error


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    number = whole_number(text, (0, INT64[1]))
    if number is None:
        raise BadRequest(f'{name}: "{text[:64]}" is not a number of 64 bits that is 0 or more')
    return number


def success_status() -> bytes:
    """The Status of a binding or an eviction that was done."""
    return msgspec.json.encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
