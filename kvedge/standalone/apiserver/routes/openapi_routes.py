"""Serves the OpenAPI documents, made when somebody asks and forgotten when nobody has for a while.

Called by the discovery routes. They are large, asked for in bursts (kubectl), and change with the served kinds only.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

import msgspec
from aiohttp import web

from kvedge.standalone.apiserver.kinds import discovery_manifest
from kvedge.standalone.apiserver.routes import openapi_manifest, openapi_protobuf
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.wire.api_errors import PathNotFound
from kvedge.standalone.apiserver.wire.media_types import JSON, parse_accept

_KEPT_SECONDS: Final = 300.0


class OpenApiRoutes:
    """Answers below /openapi."""

    def __init__(self, hub: ObjectHub) -> None:
        self._hub = hub
        self._documents: dict[str, bytes] = {}
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
        protobuf = path == "openapi/v2" and asked in openapi_protobuf.ACCEPTED
        key = "openapi/v2+protobuf" if protobuf else path
        if key not in self._documents:
            self._make(key)
        self._keep_for_a_while()
        body = self._documents.get(key)
        if body is None:
            raise PathNotFound()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'
        headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "no-cache, private"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        media_type = openapi_protobuf.CONTENT_TYPE if protobuf else JSON
        return web.Response(body=body, headers={**headers, "Content-Type": media_type})

    def _make(self, key: str) -> None:
        kinds, version = self._hub.kinds.kinds, str(discovery_manifest.version_info()["gitVersion"])
        if key.startswith("openapi/v2"):
            document = openapi_manifest.v2_document(kinds, version)
            encode = openapi_protobuf.encode if key != "openapi/v2" else msgspec.json.encode
            self._documents[key] = encode(document)
            return
        documents = openapi_manifest.v3_documents(kinds, version)
        self._documents["openapi/v3"] = msgspec.json.encode(openapi_manifest.v3_index(documents))
        for path, document in documents.items():
            self._documents[f"openapi/v3/{path}"] = msgspec.json.encode(document)

    def _keep_for_a_while(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget)

    def _forget(self) -> None:
        self._documents.clear()
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forgetting = None
