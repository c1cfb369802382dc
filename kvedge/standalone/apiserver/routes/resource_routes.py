"""The REST verbs of a stored kind: from a request to the flow that serves it, and back to a response.

Called by the dispatcher, which has found the caller, the kind and the verb.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.whole_numbers import whole_number
from kvedge.runtime.serving.warning_header import WARNING, warning_value
from kvedge.standalone.apiserver.kinds.built_in import find_built_in
from kvedge.standalone.apiserver.requests import deletion_rules, list_rules, write_rules
from kvedge.standalone.apiserver.requests.audit_entry import AUDITED
from kvedge.standalone.apiserver.requests.list_rules import ListOptions
from kvedge.standalone.apiserver.requests.object_encoding import Encoder, ListFacts
from kvedge.standalone.apiserver.requests.request_body import read_object, read_options, read_patch
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.requests.watch_stream import WatchStream
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import AlreadyExists, ApiError, Expired, MethodNotAllowed, NotFound
from kvedge.standalone.apiserver.wire.media_types import APPLY_PATCH, JSON, choose_form
from kvedge.standalone.apiserver.writing import patching
from kvedge.standalone.apiserver.writing.object_remover import ObjectRemover
from kvedge.standalone.apiserver.writing.object_writer import ObjectWriter


class ResourceRoutes:
    """Serves get, list, watch, create, update, patch, delete and deletecollection, and the status subresource."""

    def __init__(self, hub: ObjectHub, writer: ObjectWriter, remover: ObjectRemover) -> None:
        self._hub = hub
        self._writer = writer
        self._remover = remover
        self._watches: set[WatchStream] = set()
        self._verbs = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def serve(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """Answer a request for a kind or for an object's status.

        Raises:
            ApiError: everything that is refused.
        """
        return await self._verbs[context.target.verb](request, context)

    def stop(self) -> None:
        """End all watches."""
        for stream in tuple(self._watches):
            stream.end()

    async def _get(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        encoder = _encoder(request, context)
        stored = self._hub.get(context.key)
        if stored is None:
            raise NotFound(context.error_target)
        return json_response(encoder.one(stored, self._writer.now()), 200, context)

    async def _list(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        encoder, options = _encoder(request, context), list_rules.list_options(context.kind, request.query)
        objects, revision = self._state(context, options)
        chosen = [stored for stored in objects if list_rules.selects(options, stored)]
        page = list_rules.page_of(chosen, options, revision)
        facts = ListFacts(revision, page.token, page.remaining)
        return json_response(encoder.many(page.objects, facts, self._writer.now()), 200, context)

    async def _watch(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        encoder, options = _encoder(request, context), list_rules.list_options(context.kind, request.query)
        response = web.StreamResponse(headers={"Content-Type": f"{JSON};stream=watch", **_NO_CACHE})
        _add_warnings(response, context)
        response.enable_chunked_encoding()
        stream = WatchStream(self._hub.cache, encoder, context.namespace, options, self._writer.now)
        self._watches.add(stream)
        try:
            await stream.serve(request, response)
        finally:
            self._watches.discard(stream)
        return response

    async def _create(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        if context.target.name or context.target.subresource:
            raise MethodNotAllowed()
        stored = await self._writer.create(context, await read_object(request, context))
        if (entry := request.get(AUDITED)) is not None:
            # The path of a creation has no name.
            entry.name = stored.key.name
        return self._answer_write(request, context, stored, 201)

    async def _update(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        if not context.target.name:
            raise MethodNotAllowed()
        obj = await read_object(request, context)
        write_rules.check_identity(context.kind, obj, context.namespace, context.target.name)
        if self._hub.get(context.key) is None:
            raise NotFound(context.error_target)
        write_rules.check_version_named(context.kind, obj)
        return self._answer_write(request, context, await self._writer.change(context, lambda live: _copy(obj)))

    async def _patch(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        if not context.target.name:
            raise MethodNotAllowed()
        media_type, patch = await read_patch(request, patching.list_accepted_patches(context.kind), context)
        if media_type == APPLY_PATCH:
            return await self._apply(request, context, patch)
        produce = patching.patcher(context.kind, media_type, patch)
        return self._answer_write(request, context, await self._writer.change(context, produce))

    async def _apply(self, request: web.BaseRequest, context: RequestContext, wanted: Any) -> web.StreamResponse:
        """Server-side apply, which creates what is not there."""
        patching.check_apply(context, request.query, wanted)
        while True:
            if self._hub.get(context.key) is not None or context.target.subresource:
                produce = patching.applier(context, wanted, self._writer.now())
                return self._answer_write(
                    request, context, await self._writer.change(context, produce, owners_noted=True)
                )
            try:
                make = partial(patching.apply, context, None, wanted, self._writer.now())
                obj = await context.work(make)
                return self._answer_write(
                    request, context, await self._writer.create(context, obj, owners_noted=True), 201
                )
            except AlreadyExists:
                # Somebody was faster, so there is something to apply to now.
                continue

    async def _delete(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        options = deletion_rules.delete_options(_with_query(await read_options(request, context), request.query))
        stored, gone = await self._remover.delete(context, context.target.name, options)
        row = find_built_in(context.kind.storage)
        if gone and not (row is not None and row.returned_when_deleted):
            return json_response(msgspec.json.encode(_answer_deleted(context, stored)), 200, context)
        return self._answer_write(request, context, stored)

    async def _delete_collection(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        encoder, selected = _encoder(request, context), list_rules.list_options(context.kind, request.query)
        options = deletion_rules.delete_options(_with_query(await read_options(request, context), request.query))
        objects = self._hub.cache.in_namespace(context.kind.storage, context.namespace)
        chosen = [stored for stored in objects if list_rules.selects(selected, stored)]
        await self._remover.delete_all(context, chosen, options)
        facts = ListFacts(self._hub.cache.revision)
        return json_response(encoder.many(chosen, facts, self._writer.now()), 200, context)

    def _state(self, context: RequestContext, options: ListOptions) -> tuple[list[Stored], int]:
        """The objects that a list looks at, in order, and the revision that they are of."""
        cache, resource = self._hub.cache, context.kind.storage
        wanted = list_rules.list_revision(options)
        if max(wanted or 0, options.revision or 0) > cache.revision:
            raise list_rules.too_large_revision(max(wanted or 0, options.revision or 0), cache.revision)
        if wanted is None or wanted == cache.revision:
            return cache.in_namespace(resource, context.namespace), cache.revision
        try:
            return cache.at(resource, wanted, context.namespace), wanted
        except Expired as error:
            raise (list_rules.refuse_expired_token() if options.continue_token else error) from None

    def _answer_write(
        self, request: web.BaseRequest, context: RequestContext, stored: Stored, status: int = 200
    ) -> web.Response:
        body = _encoder(request, context).one(stored, self._writer.now())
        return json_response(body, status, context)


_NO_CACHE: Final = {"Cache-Control": "no-cache, private"}


def json_response(body: bytes, status: int = 200, context: RequestContext | None = None) -> web.Response:
    """A response with a JSON body, and the request's warnings."""
    response = web.Response(body=body, status=status, content_type=JSON, headers=_NO_CACHE)
    if context is not None:
        _add_warnings(response, context)
    return response


def _add_warnings(response: web.StreamResponse, context: RequestContext) -> None:
    for text in context.warnings:
        response.headers.add(WARNING, warning_value(text))


def status_response(error: ApiError) -> web.Response:
    """The response that a refusal is."""
    response = json_response(msgspec.json.encode(error.status()), error.code)
    if error.retry_after_seconds:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    response.headers.update(error.headers)
    return response


def _encoder(request: web.BaseRequest, context: RequestContext) -> Encoder:
    wanted = choose_form(request.headers.get("Accept", ""))
    include = request.query.get("includeObject", "") or "Metadata"
    return Encoder(context.kind, wanted.form, include, wanted.version)


def _copy(obj: JsonObject) -> JsonObject:
    copied: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def _with_query(body: JsonObject, query: Mapping[str, str]) -> JsonObject:
    """DeleteOptions may come in the body or, word for word, in the query."""
    options = dict(body)
    for name in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents"):
        if name in query and name not in options:
            text = query[name]
            number = whole_number(text)
            options[name] = number if number is not None else text == "true" if name == "orphanDependents" else text
    if query.get("dryRun"):
        options["dryRun"] = query.getall("dryRun") if hasattr(query, "getall") else [query["dryRun"]]
    return options


def _answer_deleted(context: RequestContext, stored: Stored) -> JsonObject:
    details = {"name": stored.key.name, "group": context.kind.group, "kind": context.kind.plural}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**{key: value for key, value in details.items() if value}, "uid": stored.meta.uid},
    }
