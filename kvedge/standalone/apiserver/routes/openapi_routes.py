"""Serves the OpenAPI documents, made when somebody asks and forgotten when nobody has for a while.

Called by the discovery routes. They are large, asked for in bursts (kubectl), and change with the served kinds, and
with what other servers answer: those are asked for their parts.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

import aiohttp
import msgspec
from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.aggregation.aggregation_proxy import AggregationProxy
from kvedge.standalone.apiserver.aggregation.aggregation_rules import AggregatedApi
from kvedge.standalone.apiserver.aggregation.foreign_openapi import add_v2, read_document, root_of, take_v3
from kvedge.standalone.apiserver.aggregation.service_resolver import NoBackend
from kvedge.standalone.apiserver.kinds import discovery_manifest
from kvedge.standalone.apiserver.kinds.discovery_manifest import AggregatedVersion
from kvedge.standalone.apiserver.requests.request_context import SERVER
from kvedge.standalone.apiserver.routes import openapi_manifest, openapi_protobuf
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.wire.api_errors import PathNotFound
from kvedge.standalone.apiserver.wire.media_types import JSON, parse_accept

log = logging.getLogger(__name__)

_KEPT_SECONDS: Final = 300.0
# Each other server is given so long, all at the same time.
_ASK_SECONDS: Final = 2.0
_V2: Final = "openapi/v2"
_V3: Final = "openapi/v3"
_PROTOBUF: Final = "openapi/v2+protobuf"


class OpenApiRoutes:
    """Answers below /openapi."""

    def __init__(
        self, hub: ObjectHub, proxy: AggregationProxy, known: Callable[[], Sequence[AggregatedVersion]]
    ) -> None:
        """`known` tells which other servers answer."""
        self._hub = hub
        self._proxy = proxy
        self._known = known
        self._documents: dict[str, bytes] = {}
        # Of which other servers they hold something.
        self._answering: frozenset[str] = frozenset()
        self._making = asyncio.Lock()
        self._forgetting: asyncio.TimerHandle | None = None
        hub.on_kinds_changed(self._forget)

    def stop(self) -> None:
        """Let go of everything."""
        self._forget()

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a GET.

        Raises:
            PathNotFound: there is no such document.
        """
        path = request.path.strip("/")
        asked = parse_accept(request.headers.get("Accept", ""))[0].name
        # kubectl asks for version 2 in this encoding, under one of two names.
        protobuf = path == _V2 and asked in openapi_protobuf.ACCEPTED
        body = await self._find(_PROTOBUF if protobuf else path)
        if body is None:
            raise PathNotFound()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'
        headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "no-cache, private"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        media_type = openapi_protobuf.CONTENT_TYPE if protobuf else JSON
        return web.Response(body=body, headers={**headers, "Content-Type": media_type})

    async def _find(self, key: str) -> bytes | None:
        async with self._making:
            answering = frozenset(f"{each.group}/{each.version}" for each in self._known() if each.available)
            if answering != self._answering:
                self._forget()
                self._answering = answering
            # Those of version 3 are made all at once: a path that is not among them is none.
            if (_V3 if key.startswith(_V3) else key) not in self._documents:
                apis = [api for api in self._proxy.apis() if f"{api.group}/{api.version}" in answering]
                await self._make(key, apis)
            self._keep_for_a_while()
            return self._documents.get(key)

    async def _make(self, key: str, apis: Sequence[AggregatedApi]) -> None:
        is_v2 = key in (_V2, _PROTOBUF)
        asked = [_V2 if is_v2 else f"{_V3}{root_of(api)}" for api in apis]
        foreign = await asyncio.gather(*(self._ask(api, path) for api, path in zip(apis, asked, strict=True)))
        # After the others were asked: the kinds may have changed meanwhile.
        kinds, version = self._hub.kinds.kinds, str(discovery_manifest.version_info()["gitVersion"])
        if is_v2:
            encode = msgspec.json.encode if key == _V2 else openapi_protobuf.encode
            self._documents[key] = _merge(openapi_manifest.v2_document(kinds, version), apis, foreign, encode)
            return
        documents = openapi_manifest.v3_documents(kinds, version)
        for api, document in zip(apis, foreign, strict=True):
            if document is not None:
                documents[root_of(api).removeprefix("/")] = take_v3(document, api)
        self._documents[_V3] = msgspec.json.encode(openapi_manifest.v3_index(documents))
        for path, document in documents.items():
            self._documents[f"{_V3}/{path}"] = msgspec.json.encode(document)

    async def _ask(self, api: AggregatedApi, path: str) -> JsonObject | None:
        """Its document; None when it has none."""
        try:
            status, body = await self._proxy.get(api, f"/{path}", SERVER, _ASK_SECONDS)
        except (NoBackend, aiohttp.ClientError, OSError, TimeoutError) as error:
            log.debug("a server does not describe its API", extra={"facts": {"api": api.name, "why": str(error)}})
            return None
        return await asyncio.to_thread(read_document, status, body)

    def _keep_for_a_while(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget)

    def _forget(self) -> None:
        self._documents.clear()
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forgetting = None


def _merge(
    own: JsonObject,
    apis: Sequence[AggregatedApi],
    foreign: Sequence[JsonObject | None],
    encode: Callable[[JsonObject], bytes],
) -> bytes:
    """The document with the parts of others, or without when something of theirs cannot be written."""
    document = own
    for api, part in zip(apis, foreign, strict=True):
        document = document if part is None else add_v2(document, part, api)
    try:
        return encode(document)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        log.warning("APIs of other servers are not described", extra={"facts": {"why": str(error)}})
        return encode(own)
