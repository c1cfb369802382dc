"""Passes requests on to the API servers behind APIServices, as the front proxy that they trust.

Used by the dispatcher. Streams both ways; a connection that is upgraded (console, VNC) becomes a tunnel.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from typing import Final

import aiohttp
from aiohttp import web

from kvedge.resources.data_volume_names import UPLOAD_GROUP
from kvedge.resources.disks.exports import split_outside_path
from kvedge.resources.disks.uploads import UPLOAD_PATHS, UPLOAD_VERSION
from kvedge.runtime.serving.stream_pump import ConnectionSource
from kvedge.standalone.apiserver.aggregation.aggregation_rules import (
    API_SERVICES,
    AggregatedApi,
    choose_forwarded_headers,
    choose_returned_headers,
    read_api_service,
    upload_headers,
)
from kvedge.standalone.apiserver.aggregation.service_resolver import Backend, NoBackend, resolve
from kvedge.standalone.apiserver.aggregation.upgrade_tunnel import tunnel, wants_upgrade
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Change
from kvedge.standalone.apiserver.wire.api_errors import ServiceUnavailable

_CONNECT_SECONDS: Final = 5.0
# A client that takes nothing for so long holds no connection any more.
_STALLED_SECONDS: Final = 180.0

# Makes a TLS context with the front proxy's client certificate.
ClientTls = Callable[[], ssl.SSLContext]


class AggregationProxy:
    """Knows the APIServices that name a Service, and reaches them."""

    def __init__(self, hub: ObjectHub, client_tls: ClientTls) -> None:
        self._hub = hub
        self._client_tls = client_tls
        self._apis: dict[tuple[str, str], AggregatedApi] = {}
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None
        self._reload()
        hub.cache.on_change(self._notice)

    def apis(self) -> list[AggregatedApi]:
        """What other servers answer."""
        return list(self._apis.values())

    def api_of(self, group: str, version: str) -> AggregatedApi | None:
        """The other server that answers for this group and version."""
        return self._apis.get((group, version))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def serve(self, request: web.BaseRequest, caller: Caller, api: AggregatedApi) -> web.StreamResponse:
        """Pass a request on and its answer back.

        Raises:
            ServiceUnavailable: the other server cannot be reached.
        """
        try:
            backend = resolve(self._hub.cache, api.namespace, api.service, api.port)
            if wants_upgrade(request):
                return await self._tunnel(request, caller, api, backend)
            return await self._forward(request, caller, api, backend)
        except (NoBackend, aiohttp.ClientConnectionError, OSError, TimeoutError) as error:
            if isinstance(error, ConnectionResetError) and request.transport is None:
                raise
            raise ServiceUnavailable(f"the server behind {api.name} cannot be reached: {error}") from error

    def upload_api(self, path: str) -> AggregatedApi | None:
        """The server that takes uploads and hands out exports at this path: the one that answers for upload tokens.

        Its clients have a token of that server's, or of an export, which is nobody's here: it is the one to judge them.
        """
        if path in UPLOAD_PATHS or split_outside_path(path.partition("?")[0]) is not None:
            return self.api_of(UPLOAD_GROUP, UPLOAD_VERSION)
        return None

    async def serve_upload(self, request: web.BaseRequest, api: AggregatedApi) -> web.StreamResponse:
        """Pass an upload on, a piece at a time, for as long as it takes.

        Raises:
            ServiceUnavailable: the other server cannot be reached.
        """
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        try:
            backend = resolve(self._hub.cache, api.namespace, api.service, api.port)
            body = request.content if request.body_exists else None
            headers = upload_headers(request.headers.items())
            answer = await self._send(request.method, request.path_qs, headers, body, api, backend)
            return await _hand_back(request, answer)
        except (NoBackend, aiohttp.ClientConnectionError, OSError, TimeoutError) as error:
            if request.transport is None:
                raise ConnectionResetError("the client left") from error
            raise ServiceUnavailable(f"the server behind {api.name} cannot be reached: {error}") from error

    async def get(self, api: AggregatedApi, path: str, caller: Caller, seconds: float) -> tuple[int, bytes]:
        """The status and the body of a GET in the caller's name.

        Raises:
            NoBackend, aiohttp.ClientError, OSError, TimeoutError: as their names say.
        """
        backend = resolve(self._hub.cache, api.namespace, api.service, api.port)
        async with asyncio.timeout(seconds):
            response = await self._send_request(
                "GET", path, [("Accept", "application/json")], None, caller, api, backend
            )
            async with response:
                return response.status, await response.read()

    async def _forward(
        self, request: web.BaseRequest, caller: Caller, api: AggregatedApi, backend: Backend
    ) -> web.StreamResponse:
        body = request.content if request.body_exists else None
        headers = list(request.headers.items())
        answer = await self._send_request(request.method, request.path_qs, headers, body, caller, api, backend)
        return await _hand_back(request, answer)

    async def _send_request(
        self,
        method: str,
        path: str,
        headers: list[tuple[str, str]],
        body: aiohttp.StreamReader | None,
        caller: Caller,
        api: AggregatedApi,
        backend: Backend,
    ) -> aiohttp.ClientResponse:
        return await self._send(method, path, choose_forwarded_headers(headers, caller), body, api, backend)

    async def _send(
        self,
        method: str,
        path: str,
        headers: list[tuple[str, str]],
        body: aiohttp.StreamReader | None,
        api: AggregatedApi,
        backend: Backend,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
            self._session = aiohttp.ClientSession(
                timeout=timeout,
                # Each request has a connection of its own: what one user left in it would be read as the next one's.
                connector=aiohttp.TCPConnector(force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_NO_HEADERS,
            )
        return await self._session.request(
            method,
            f"https://{backend.authority}{path}",
            headers=headers,
            data=body,
            ssl=self._choose_tls(api),
            server_hostname=backend.server_name,
            allow_redirects=False,
        )

    async def _tunnel(
        self, request: web.BaseRequest, caller: Caller, api: AggregatedApi, backend: Backend
    ) -> web.StreamResponse:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                backend.host, backend.port, ssl=self._choose_tls(api), server_hostname=backend.server_name
            )
        try:
            return await tunnel(
                request, choose_forwarded_headers(request.headers.items(), caller), backend, reader, writer
            )
        finally:
            # Not left to TLS's own goodbye, for which it waits half a minute when the other side has gone.
            await ConnectionSource(reader, writer).close()

    def forget_tls(self) -> None:
        """Read the front proxy's certificate again for the next connection: it may have been renewed."""
        self._contexts.clear()

    def _choose_tls(self, api: AggregatedApi) -> ssl.SSLContext:
        key = (api.ca_bundle, api.insecure)
        known = self._contexts.get(key)
        if known is None:
            known = self._client_tls()
            if api.insecure:
                known.check_hostname = False
                known.verify_mode = ssl.CERT_NONE
            elif api.ca_bundle:
                try:
                    known.load_verify_locations(cadata=base64.b64decode(api.ca_bundle).decode())
                except (ValueError, ssl.SSLError) as error:
                    raise ServiceUnavailable(f"the caBundle of {api.name} is no PEM certificate in base64") from error
            else:
                known.load_default_certs()
            self._contexts[key] = known
        return known

    def _notice(self, change: Change) -> None:
        if change.current.key.resource == API_SERVICES:
            self._reload()

    def _reload(self) -> None:
        found = (read_api_service(stored.load()) for stored in self._hub.cache.in_namespace(API_SERVICES))
        self._apis = {(api.group, api.version): api for api in found if api is not None}


async def _hand_back(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    async with answer:
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        for name, value in choose_returned_headers(answer.headers.items()):
            response.headers.add(name, value)
        await response.prepare(request)
        try:
            async for chunk in answer.content.iter_any():
                async with asyncio.timeout(_STALLED_SECONDS):
                    await response.write(chunk)
        except (aiohttp.ClientError, TimeoutError) as error:
            # What else is written now would be taken for the rest of the answer.
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the other server broke off, or the client takes nothing") from error
        await response.write_eof()
    return response


# The client's own headers are passed on, none is made up.
_NO_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
