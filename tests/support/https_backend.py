"""An HTTPS server of a test's own, in a thread: a webhook, or an API server that another one aggregates."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path

from aiohttp import web

from tests.support.certificate_files import FileAuthority

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpsBackend:
    """Serves `handler` with a certificate for `hosts`; verifies client certificates of `client_ca` when they come."""

    def __init__(
        self, directory: Path, handler: Handler, bind: str, hosts: list[str], client_ca: bytes | None = None
    ) -> None:
        directory.mkdir(exist_ok=True)
        authority = FileAuthority(directory, "backend-ca")
        pair = authority.issue("backend", hosts=hosts)
        self.ca_bundle = base64.b64encode(authority.ca.read_bytes()).decode()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.cert, pair.key)
        if client_ca is not None:
            self._context.load_verify_locations(cadata=client_ca.decode())
            self._context.verify_mode = ssl.CERT_OPTIONAL
        self._handler = handler
        self._bind = bind
        self._started: Future[int] = Future()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: web.Server | None = None
        self._requests = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="backend", daemon=True)

    def start(self) -> int:
        """Begin to serve; returns the port."""
        self._thread.start()
        return self._started.result(10)

    def stop(self) -> None:
        """End the server."""
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)

    def open_connections(self) -> int:
        """How many connections there are now."""
        return len(self._server.connections) if self._server is not None else 0

    def open_requests(self) -> int:
        """How many requests, WebSockets among them, are being answered now."""
        return self._requests

    async def _counted(self, request: web.BaseRequest) -> web.StreamResponse:
        self._requests += 1
        try:
            return await self._handler(request)
        finally:
            self._requests -= 1

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._server = web.Server(self._counted, access_log=None)
        runner = web.ServerRunner(self._server, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, self._bind, 0, ssl_context=self._context).start()
        self._started.set_result(runner.addresses[0][1])
        await self._stopping.wait()
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()
