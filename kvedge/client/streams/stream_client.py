"""Streams to a guest through the API server: websockets with KubeVirt's subprotocol, opened as the kubeconfig says.

Called by console, vnc and port-forward once they run. Imports aiohttp, which is why no verb imports this before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode

import aiohttp

from kvedge.client.errors import ClientError, NotFoundError, RefusedError
from kvedge.client.nearest_vm import add_nearest_hint
from kvedge.client.session import Session
from kvedge.client.subresources import subresource_path

_PROTOCOL: Final = "plain.kubevirt.io"
_CONNECT_SECONDS: Final = 20.0
# The other side is told of our end; its answer to that is not needed.
_CLOSE_SECONDS: Final = 2.0
_NOT_FOUND: Final = 404
# A refusal is a few lines; more is not shown anyway.
_LONGEST_REFUSAL: Final = 64 * 1024


class StreamRefused(Exception):
    """The server would not open the stream; `status` is the HTTP status, or 0 when there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class StreamClient:
    """Opens streams of one session; used as `async with`, in one event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection
        # A context of its own, or aiohttp's default.
        self._tls: ssl.SSLContext | bool = True if session.connection.tls is None else session.connection.tls
        self._proxy = session.connection.proxy or None
        self._server_name = session.connection.server_name or None
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._http is not None
        await self._http.close()

    async def open(
        self,
        resource: str,
        name: str,
        call: str,
        query: Mapping[str, str] | None = None,
        heartbeat: float | None = None,
    ) -> aiohttp.ClientWebSocketResponse:
        """A stream of a VM's or VMI's subresource `call`.

        Raises:
            StreamRefused: with the server's words.
        """
        assert self._http is not None
        path = subresource_path(self._session.namespace, resource, name, call)
        url = self._connection.host + path + (f"?{urlencode(query)}" if query else "")
        try:
            # Made for each stream: a port-forward lives longer than many a token.
            headers = await self._make_headers()
            async with _limit_time(_CONNECT_SECONDS):
                return await self._http.ws_connect(
                    url,
                    protocols=(_PROTOCOL,),
                    headers=headers,
                    heartbeat=heartbeat,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                    ssl=self._tls,
                    server_hostname=self._server_name,
                    proxy=self._proxy,
                )
        except aiohttp.WSServerHandshakeError as error:
            message = await self._read_refusal(url)
            raise StreamRefused(error.status, message or f"{call}: refused with HTTP {error.status}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise StreamRefused(0, f"{call}: the API server cannot be reached: {_words(error)}") from error

    async def open_or_explain(
        self,
        resource: str,
        name: str,
        call: str,
        query: Mapping[str, str] | None = None,
        heartbeat: float | None = None,
    ) -> aiohttp.ClientWebSocketResponse:
        """As `open`, for whoever has nothing else to try.

        Raises:
            ClientError: what the user is told of a refusal.
        """
        try:
            return await self.open(resource, name, call, query, heartbeat)
        except StreamRefused as refused:
            # The server is asked for names that are alike.
            raise await asyncio.to_thread(self.explain, refused, resource, name) from refused

    async def check(self, resource: str, name: str, call: str) -> None:
        """Whether this user has such a stream now, before a viewer is started that would only say that it has none.

        It is not kept: one that nobody reads answers no ping, and the server ends it.

        Raises:
            ClientError: what the user is told of a refusal.
        """
        stream = await self.open_or_explain(resource, name, call)
        await stream.close()

    def explain(self, refused: StreamRefused, resource: str, name: str) -> ClientError:
        """The refusal as an error of this client, with names that are alike when nothing has this one."""
        if refused.status == _NOT_FOUND:
            return NotFoundError(add_nearest_hint(self._session, refused.message, resource, name))
        return RefusedError(refused.message)

    async def _make_headers(self) -> dict[str, str]:
        # A kubeconfig's program may take its time, and ask its user.
        authorization = await asyncio.to_thread(self._connection.authorization)
        return {"Authorization": authorization} if authorization else {}

    async def _read_refusal(self, url: str) -> str:
        """A handshake's refusal has no readable body: the same path without the upgrade says why."""
        assert self._http is not None
        try:
            headers = await self._make_headers()
            async with (
                _limit_time(_CONNECT_SECONDS),
                self._http.get(
                    url,
                    headers=headers,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                    proxy=self._proxy,
                ) as answer,
            ):
                body = await answer.content.read(_LONGEST_REFUSAL)
        except (aiohttp.ClientError, OSError):
            return ""
        with contextlib.suppress(ValueError):
            document = json.loads(body)
            return str(document.get("message", "")) if isinstance(document, dict) else ""
        return body.decode(errors="replace").strip()[:500]


def run_streams(work: Coroutine[Any, Any, None], on_failure: Callable[[str], None]) -> None:
    """Run streams to their end in an event loop of their own.

    Args:
        work: opens streams and uses them.
        on_failure: gets a line for what fails beside them, where Python would show a traceback.
    """

    def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        on_failure(f"{context.get('message', 'a stream failed')}: {context.get('exception', '')}")

    async def work_watched() -> None:
        asyncio.get_running_loop().set_exception_handler(tell)
        await work

    asyncio.run(work_watched())


async def receive(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[bytes]:
    """What comes, until either side ends it; only binary frames carry data."""
    async for message in socket:
        if message.type is aiohttp.WSMsgType.BINARY:
            yield message.data


@contextlib.asynccontextmanager
async def _limit_time(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise aiohttp.ServerTimeoutError(f"no answer within {seconds:.0f} s") from error


def _words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        # The library's own words show Python's objects, and asyncio's repeat the address.
        number = error.os_error.errno or 0
        why = os.strerror(number) if number > 0 else error.os_error.strerror or str(error.os_error)
        return f"{error.host}:{error.port}: {why}: is `kvedge standalone` running?"
    return str(error) or type(error).__name__
