"""The way to a node's handler: mutual TLS to its relay, whose address stands on the Node.

Used by guest_calls.py and stream_calls.py in the server's event loop. Both certificates are of kvedge's own authority:
ours says kvedge-api, the relay's names its node, so that no node can answer for another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
import msgspec

from kvedge.api.subresources.status_message import Refusal
from kvedge.resources.codec import JsonObject
from kvedge.resources.relay_protocol import LARGEST_PICTURE, REASON_HEADER, ROLE_STATS_ROUTE, STATS_ROUTE, relay_path
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.guest_stats import LARGEST_NODE_STATS
from kvedge.resources.usage.role_stats import LARGEST_ROLE_STATS
from kvedge.runtime.serving.websocket_viewer import LARGEST_MESSAGE, SUBPROTOCOL
from kvedge.runtime.tls.certificates import TlsMaterial, handler_server_name
from kvedge.runtime.tls.client_tls import ClientTls

_CONNECT_SECONDS: Final = 10.0
_CALL_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 3.0
# An answer is a handful of facts: more is cut off rather than held in memory.
_LARGEST_ANSWER: Final = 1 << 20


class RelayClient:
    """Calls and streams to the relays of all nodes; made, used and closed in one event loop."""

    def __init__(self, address_of: Callable[[str], Awaitable[str]], material: Callable[[], TlsMaterial]) -> None:
        """`address_of` finds a node's relay as host:port; `material` is our newest certificate."""
        self._address_of = address_of
        self._tls = ClientTls(material)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()

    async def call(
        self,
        vmi: VirtualMachineInstance,
        method: str,
        verb: str,
        options: JsonObject | None = None,
        query: dict[str, str] | None = None,
    ) -> JsonObject:
        """Ask the relay of the VMI's node.

        Raises:
            Refusal: with the relay's own status, or 503 when it does not answer.
        """
        body = msgspec.json.encode(options) if options is not None else None
        url = await self._make_url(vmi, verb)
        try:
            async with self._open_session().request(
                method, url, params=query, data=body, **self._terms(vmi.status.node_name)
            ) as response:
                return _answer(response.status, await _read(response, _LARGEST_ANSWER))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _no_answer(vmi.status.node_name, error) from error

    async def node_stats(self, node: str, address: str) -> bytes:
        """What the guests of a node have used, as JSON of `NodeStats`. Raises Refusal as :meth:`call`."""
        return await self._ask_node(node, f"https://{address}{STATS_ROUTE}", LARGEST_NODE_STATS)

    async def role_stats(self, node: str, address: str) -> bytes:
        """What a node's handler counts of itself, as JSON of `RoleStats`. Raises Refusal as :meth:`call`."""
        return await self._ask_node(node, f"https://{address}{ROLE_STATS_ROUTE}", LARGEST_ROLE_STATS)

    async def _ask_node(self, node: str, url: str, most: int) -> bytes:
        try:
            async with self._open_session().get(url, **self._terms(node)) as response:
                body = await _read(response, most)
                if response.status != 200:
                    # A handler of an earlier version does not know the path.
                    raise Refusal(502, f"the relay of node {node} answered {response.status}")
                return body
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _no_answer(node, error) from error

    async def download(self, vmi: VirtualMachineInstance, what: str, query: dict[str, str]) -> bytes:
        """A file that the relay of the VMI's node has. Raises Refusal as :meth:`call`."""
        url = await self._make_url(vmi, what)
        try:
            async with self._open_session().get(url, params=query, **self._terms(vmi.status.node_name)) as response:
                if response.status != 200:
                    _answer(response.status, await _read(response, _LARGEST_ANSWER))
                    raise Refusal(502, f"the node's relay answered {response.status} without sense")
                return await _read(response, LARGEST_PICTURE)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _no_answer(vmi.status.node_name, error) from error

    def _terms(self, node: str) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS, connect=_CONNECT_SECONDS)
        return {
            "timeout": timeout,
            "ssl": self._tls.current(),
            "server_hostname": handler_server_name(node),
            "allow_redirects": False,
        }

    async def open_stream(
        self, vmi: VirtualMachineInstance, kind: str, query: dict[str, str]
    ) -> aiohttp.ClientWebSocketResponse:
        """A stream to the guest.

        Raises:
            Refusal: with the relay's own status, or 503 when it does not answer.
        """
        url = await self._make_url(vmi, kind)
        try:
            return await asyncio.wait_for(
                self._open_session().ws_connect(
                    url,
                    params=query,
                    protocols=(SUBPROTOCOL,),
                    max_msg_size=LARGEST_MESSAGE,
                    # Pings are read where the stream is read, so that a slow client is not taken for dead.
                    autoping=False,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                    ssl=self._tls.current(),
                    server_hostname=handler_server_name(vmi.status.node_name),
                ),
                _CONNECT_SECONDS * 2,
            )
        except aiohttp.WSServerHandshakeError as error:
            # The body with the reason is gone by now: the relay repeats it in a header.
            detail = error.headers.get(REASON_HEADER, "") if error.headers is not None else ""
            raise Refusal(error.status, detail or f"the node's relay answered {error.status}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _no_answer(vmi.status.node_name, error) from error

    async def _make_url(self, vmi: VirtualMachineInstance, what: str) -> str:
        address = await self._address_of(vmi.status.node_name)
        return f"https://{address}{relay_path(vmi.metadata.namespace, vmi.metadata.name, what)}"

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # No cookie, no proxy from the environment, no redirect: this goes to our own relays. A stream is a
            # connection, and there may be more of them than the hundred that aiohttp allows.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        return self._session


def _no_answer(node: str, error: Exception) -> Refusal:
    detail = str(error) or type(error).__name__
    return Refusal(503, f"the handler of node {node} does not answer: {detail}")


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """All of the body, however many pieces it comes in."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > most:
            raise Refusal(502, f"the node's relay answered with more than {most} bytes")
    return bytes(body)


def _answer(status: int, body: bytes) -> JsonObject:
    try:
        document = msgspec.json.decode(body, type=dict) if body else {}
    except msgspec.DecodeError as error:
        raise Refusal(502, f"the node's relay answered {status} without sense") from error
    if status >= 400:
        raise Refusal(status, str(document.get("message") or f"the node's relay answered {status}"))
    return document
