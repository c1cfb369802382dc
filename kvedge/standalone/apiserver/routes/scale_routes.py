"""The scale subresource of custom kinds: how many, seen and set the same way for every kind that has it.

Called by the dispatcher. A write of the scale is a write of the object at the one path that its CRD names.
"""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.versions import convert_to_served
from kvedge.standalone.apiserver.requests.request_body import read_object, read_patch
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.requests.write_rules import invalid
from kvedge.standalone.apiserver.routes.resource_routes import json_response
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import (
    BadRequest,
    FieldError,
    FieldErrorType,
    MethodNotAllowed,
    NotFound,
)
from kvedge.standalone.apiserver.wire.media_types import JSON_PATCH, MERGE_PATCH
from kvedge.standalone.apiserver.writing import patching
from kvedge.standalone.apiserver.writing.object_writer import ObjectWriter


class ScaleRoutes:
    """Serves <resource>/<name>/scale."""

    def __init__(self, hub: ObjectHub, writer: ObjectWriter) -> None:
        self._hub = hub
        self._writer = writer

    async def serve(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """Answer get, update and patch."""
        paths = scale_paths(context)
        match context.target.verb:
            case "get":
                return self._answer(context, paths, self._find(context))
            case "update":
                scale = await read_object(request, context)
                return self._answer(context, paths, await self._write(context, paths, lambda _: scale))
            case "patch":
                media_type, patch = await read_patch(request, (JSON_PATCH, MERGE_PATCH), context)
                produce = patching.patcher(context.kind, media_type, patch)
                return self._answer(context, paths, await self._write(context, paths, produce))
        raise MethodNotAllowed()

    async def _write(self, context: RequestContext, paths: JsonObject, produce: Any) -> Stored:
        def set_scale(live: JsonObject) -> JsonObject:
            scale = produce(scale_of(live, paths))
            for part in ("spec", "metadata"):
                if not isinstance(scale.get(part) or {}, dict):
                    raise BadRequest(f"{part} of a Scale must be an object")
            replicas = (scale.get("spec") or {}).get("replicas", 0)
            if not isinstance(replicas, int) or replicas < 0:
                words = "should be a non-negative integer"
                error = FieldError(FieldErrorType.INVALID, paths["specReplicasPath"], words, replicas)
                raise invalid(context.kind, context.target.name, [error])
            version = (scale.get("metadata") or {}).get("resourceVersion")
            if version:
                live["metadata"]["resourceVersion"] = version
            _set(live, paths["specReplicasPath"], replicas)
            return live

        return await self._writer.change(context, set_scale)

    def _find(self, context: RequestContext) -> Stored:
        stored = self._hub.get(context.key)
        if stored is None:
            raise NotFound(context.error_target)
        return stored

    def _answer(self, context: RequestContext, paths: JsonObject, stored: Stored) -> web.Response:
        scale = scale_of(convert_to_served(context.kind, stored.load()), paths)
        return json_response(msgspec.json.encode(scale), 200, context)


def scale_paths(context: RequestContext) -> JsonObject:
    """What the CRD says about the scale of this kind."""
    paths: JsonObject = ((context.kind.crd_version or {}).get("subresources") or {}).get("scale") or {}
    return paths


def scale_of(obj: JsonObject, paths: JsonObject) -> JsonObject:
    """The autoscaling/v1 Scale of an object."""
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: JsonObject = {"replicas": _get(obj, paths["statusReplicasPath"]) or 0}
    selector = _get(obj, paths["labelSelectorPath"]) if paths.get("labelSelectorPath") else None
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": _get(obj, paths["specReplicasPath"]) or 0},
        "status": status,
    }


def _get(obj: JsonObject, path: str) -> Any:
    value: Any = obj
    for key in path.strip(".").split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _set(obj: JsonObject, path: str, value: object) -> None:
    *parents, last = path.strip(".").split(".")
    for key in parents:
        obj = obj.setdefault(key, {})
        if not isinstance(obj, dict):
            raise BadRequest(f"{path} cannot be set: {key} is no object")
    obj[last] = value
