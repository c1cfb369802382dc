"""console, vnc and portforward: a websocket of the user joined to the guest's end.

Called by subresource_server.py in the server's event loop. The guest's end is opened first, so that what goes wrong is
an HTTP answer; only then the user's connection becomes a websocket.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
from typing import Final, cast

import aiohttp
from aiohttp import WSMsgType, web

from kvedge.api.subresources.guest_viewer import GuestViewer
from kvedge.api.subresources.relay_client import RelayClient
from kvedge.api.subresources.status_message import bad_request, internal
from kvedge.api.subresources.stream_watch import LOOK_SECONDS, StreamWatch
from kvedge.kube.figures.stream_figures import STREAM_FIGURES
from kvedge.resources.relay_protocol import NO_UPGRADE
from kvedge.runtime.serving.stream_core import DEAD_SECONDS
from kvedge.runtime.serving.stream_pump import ENDED, FAILED, GOING_DOWN, ConnectionSource, Farewell, Source, pump
from kvedge.runtime.serving.websocket_viewer import WebSocketViewer, hang_up, nobody_there, wants_websocket

log = logging.getLogger(__name__)

_DIAL_SECONDS: Final = 10.0
# Of a farewell, as RFC 6455 has it.
_LONGEST_REASON: Final = 123
_CLOSE_SECONDS: Final = 4.0
# A client may leave as soon as it has sent all; a slow guest takes the rest then.
_UPLOAD_SECONDS: Final = 60.0
# Codes that a relay says: done, going away, and what else may be sent at all of those that are not about protocols.
_CODES: Final = (1000, 1001, 1011)
NODE_LOST: Final = Farewell(1011, "the connection to the guest's node was lost")
NODE_SILENT: Final = Farewell(1011, "the guest's node does not answer")
# Datagrams that the user has not taken yet; more are lost, as on any network.
_DATAGRAMS: Final = 64


class StreamCalls:
    """All streams of this api role; made and used in one event loop."""

    def __init__(self, relay: RelayClient) -> None:
        self._relay = relay
        self._open: set[asyncio.Future[Farewell]] = set()

    @property
    def count(self) -> int:
        """How many streams are open."""
        return len(self._open)

    def send_all_away(self) -> None:
        """End all streams, telling why."""
        for sent_away in self._open:
            if not sent_away.done():
                sent_away.set_result(GOING_DOWN)

    async def relay(
        self, request: web.Request, watch: StreamWatch, kind: str, query: dict[str, str]
    ) -> web.StreamResponse:
        """The guest's console or display, by its node's relay. Raises Refusal."""
        vmi = watch.vmi
        if not wants_websocket(request):
            # The relay says what would be in the way, and sends nobody away for it.
            await self._relay.call(vmi, "GET", kind, query=query)
            raise bad_request(NO_UPGRADE)
        socket = await self._relay.open_stream(vmi, kind, query)
        return await self._join(request, GuestViewer(), RelaySource(socket), watch, kind)

    async def forward(self, request: web.Request, watch: StreamWatch, port: int, protocol: str) -> web.StreamResponse:
        """A port of the guest. Raises Refusal."""
        source = await dial(watch.address, port, protocol)
        if not wants_websocket(request):
            await source.close()
            raise bad_request(NO_UPGRADE)
        return await self._join(request, WebSocketViewer(), source, watch, "portforward", f"{protocol}/{port}")

    async def _join(
        self,
        request: web.Request,
        viewer: WebSocketViewer,
        source: Source,
        watch: StreamWatch,
        kind: str,
        words: str = "",
    ) -> web.StreamResponse:
        try:
            await viewer.accept(request)
        except ConnectionError:
            await source.close()
            return nobody_there()
        except BaseException:
            await source.close()
            raise
        sent_away: asyncio.Future[Farewell] = asyncio.get_running_loop().create_future()
        self._open.add(sent_away)
        watching = asyncio.create_task(_send_away(sent_away, watch))
        known = watch.vmi.metadata
        try:
            with STREAM_FIGURES.count(kind, known.namespace, known.name, known.uid):
                farewell = await pump(viewer, source, sent_away)
        finally:
            self._open.discard(sent_away)
            watching.cancel()
            await asyncio.wait([watching])
        facts = {"vmi": f"{known.namespace}/{known.name}", "stream": words or kind, "reason": farewell.reason}
        log.info("stream ended", extra={"facts": facts})
        return viewer.socket


async def _send_away(sent_away: asyncio.Future[Farewell], watch: StreamWatch) -> None:
    """End a stream that may not stay, or that cannot be watched."""
    farewell = FAILED
    try:
        farewell = await watch.end(LOOK_SECONDS)
    finally:
        if not sent_away.done():
            sent_away.set_result(farewell)


async def dial(address: str, port: int, protocol: str) -> Source:
    """Connect to a guest.

    Raises:
        Refusal: 400 for what is no guest's address, 500 when nobody answers there.
    """
    _check_address(address)
    try:
        if protocol == "udp":
            return await _open_datagrams(address, port)
        async with asyncio.timeout(_DIAL_SECONDS):
            reader, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError) as error:
        # asyncio's own words repeat the address.
        why = f"connect: {os.strerror(error.errno).lower()}" if error.errno else str(error) or "no answer"
        raise internal(f"Internal error occurred: dialing VM: dial {protocol} {address}:{port}: {why}") from error
    return ConnectionSource(reader, writer, _UPLOAD_SECONDS)


def _check_address(text: str) -> None:
    """Never ourselves, whatever somebody has written into a status."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise bad_request("no network interfaces are present") from error
    if address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local:
        raise bad_request(f"{text} is not the address of a guest")


class RelaySource:
    """The websocket to a relay; what the relay says at the end is passed on."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._connection = socket.get_extra_info("socket")
        self.farewell = NODE_LOST

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end; the relay pings, and a minute without a word of it is an end, too."""
        while True:
            try:
                message = await self._socket.receive(DEAD_SECONDS)
            except TimeoutError:
                self.farewell = NODE_SILENT
                return None
            match message.type:
                case WSMsgType.BINARY:
                    data: bytes = message.data
                    return data
                case WSMsgType.PING:
                    await self._socket.pong(message.data)
                case WSMsgType.PONG | WSMsgType.TEXT:
                    continue
                case WSMsgType.CLOSE:
                    self.farewell = read_farewell(message.data, message.extra or "")
                    return None
                case _:
                    return None

    async def write(self, data: bytes) -> None:
        """Write, and wait while the guest is slow."""
        await self._socket.send_bytes(data)

    async def ping(self) -> None:
        """The relay should know that we are here while a slow viewer keeps us from reading its pings."""
        await self._socket.ping()

    async def close(self) -> None:
        """Give it up."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._socket.close()
        except (ConnectionError, TimeoutError):
            hang_up(self._connection)


def read_farewell(code: int, reason: str) -> Farewell:
    """What a viewer is told when the relay has ended the stream: the same, if it may stand on a wire."""
    if code not in _CODES:
        return NODE_LOST
    return Farewell(code, reason.encode()[:_LONGEST_REASON].decode(errors="ignore"))


class DatagramSource(asyncio.DatagramProtocol):
    """UDP to a guest: one message is one datagram; it ends when the viewer leaves or its watch ends it."""

    farewell = ENDED

    def __init__(self) -> None:
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue(_DATAGRAMS)
        self._full = False
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        # Python 3.11's own one is no subclass of what it is documented to be.
        self.transport = cast(asyncio.DatagramTransport, transport)

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self._full = True

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._full = False

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Called by the event loop."""
        if not self._received.full():
            self._received.put_nowait(data)

    async def read(self) -> bytes | None:
        """The next datagram."""
        return await self._received.get()

    async def write(self, data: bytes) -> None:
        """Send one, or lose it when the network takes no more."""
        assert self.transport is not None
        if not self._full:
            self.transport.sendto(data)

    async def ping(self) -> None:
        """The other side would not know what it is."""

    async def close(self) -> None:
        """Give it up."""
        assert self.transport is not None
        self.transport.abort()


async def _open_datagrams(address: str, port: int) -> DatagramSource:
    loop = asyncio.get_running_loop()
    _, source = await loop.create_datagram_endpoint(DatagramSource, remote_addr=(address, port))
    return source
