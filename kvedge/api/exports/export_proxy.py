"""The export proxy: leads clients from outside to the exporter of an export, which judges their token.

Mounted by api_run.py on the role's server, at KubeVirt's path. Nothing is kept but the piece that is under way, and a
client's slowness is handed on. No URL is logged: it may hold the token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from kvedge.api.exports.export_rules import (
    STALLED_SECONDS,
    download_slots,
    returned_headers,
    sent_headers,
)
from kvedge.api.transfer_slots import TransferRefused
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.disks.exports import EXPORT_PORT, exporter_name, server_name, split_outside_path
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.exports import EXPORT_GROUP, VirtualMachineExport
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.tls.certificates import TlsMaterial
from kvedge.runtime.tls.client_tls import ClientTls

log = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 10.0
_PIECE: Final = 256 << 10


class ExportReader:
    """Questions to one API server, from an event loop: the client blocks, so that each has a thread."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def find(self, namespace: str, name: str) -> tuple[VirtualMachineExport, str]:
        """An export that is served, and the address of its exporter.

        Raises:
            TransferRefused: 404 when there is none, 503 when it is not served now.
        """
        return await asyncio.to_thread(self._find, namespace, name)

    def _find(self, namespace: str, name: str) -> tuple[VirtualMachineExport, str]:
        try:
            export = self._client.get(VirtualMachineExport, namespace, name)
        except NotFound as error:
            raise TransferRefused(404, f"VirtualMachineExport {namespace}/{name} not found") from error
        except KubeError as error:
            raise TransferRefused(503, f"the API server: {error.message or error}") from error
        if export.status.phase != "Ready":
            raise TransferRefused(503, f"VirtualMachineExport {namespace}/{name} is not ready")
        try:
            pod = self._client.get(Pod, namespace, exporter_name(name))
        except KubeError as error:
            raise TransferRefused(503, f"the exporter: {error.message or error}") from error
        if pod.status.phase != "Running" or not pod.status.pod_ip:
            raise TransferRefused(503, f"VirtualMachineExport {namespace}/{name} has no exporter now")
        return export, pod.status.pod_ip


class ExportProxy:
    """The calls; made, used and closed in one event loop."""

    # Where exporters listen.
    port = EXPORT_PORT

    def __init__(self, reader: ExportReader, material: Callable[[], TlsMaterial]) -> None:
        """`material` holds the authority of exporters."""
        self._reader = reader
        self._tls = ClientTls(material)
        self._slots = download_slots()
        self._session: aiohttp.ClientSession | None = None

    def routes(self) -> list[web.RouteDef]:
        """Everything that is served."""
        return [web.route("*", f"/api/{EXPORT_GROUP}/{{rest:.*}}", self._handle)]

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._serve(request)
        except TransferRefused as error:
            headers = {"X-Content-Type-Options": "nosniff"}
            return web.Response(status=error.status, text=f"{error.message}\n", headers=headers)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        parts = split_outside_path(path)
        if parts is None:
            raise TransferRefused(400, "the path leads to no export")
        if request.method not in ("GET", "HEAD"):
            raise TransferRefused(400, "exports are read by GET and HEAD")
        namespace, name, inner = parts
        with self._slots.take(namespace):
            export, address = await self._reader.find(namespace, name)
            return await self._hand_on(request, export, address, f"{inner}?{query}" if query else inner)

    async def _hand_on(
        self, request: web.Request, export: VirtualMachineExport, address: str, target: str
    ) -> web.StreamResponse:
        try:
            answer = await self._open_session().request(
                request.method,
                # As it came: what is quoted stays so.
                URL(f"https://{join_address(address, self.port)}{target}", encoded=True),
                headers=sent_headers(request.headers, export),
                ssl=self._tls.current(),
                server_hostname=server_name(export.metadata.uid),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransferRefused(503, "the exporter does not answer; try again") from error
        async with answer:
            return await _hand_back(request, answer)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No pool: an exporter answers one call on each connection.
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                trust_env=False,
            )
        return self._session


async def _hand_back(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    for name, value in returned_headers(answer.headers.items()):
        response.headers[name] = value
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    if hdrs.CONTENT_LENGTH not in answer.headers:
        response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        async for piece in answer.content.iter_chunked(_PIECE):
            async with asyncio.timeout(STALLED_SECONDS):
                await response.write(piece)
    except (aiohttp.ClientError, TimeoutError) as error:
        # The exporter ended, as a guest wants its disk, or the client takes nothing: half an answer must look like one.
        log.info("a download broke off", extra={"facts": {"reason": type(error).__name__}})
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the download broke off") from error
    await response.write_eof()
    return response
