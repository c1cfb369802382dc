"""One `kubectl port-forward`: streams of SPDY, each pair of them a connection in the Pod's network.

Used by `forward_routes`, in the event loop. A client opens two streams for each connection, as in Kubernetes: one for
its bytes and one by which it hears why there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from msgspec import Struct, field

from kvedge.standalone.apiserver.routes.forwarding.forward_source import NoForward
from kvedge.standalone.apiserver.wire.spdy_carriers import Carrier
from kvedge.standalone.apiserver.wire.spdy_frames import (
    CANCEL,
    REFUSED_STREAM,
    Event,
    Opened,
    Pinged,
    Received,
    SpdyError,
    SpdyReader,
    SpdyWriter,
    WasReset,
    data_frame,
    pong_frame,
    reset_frame,
)

Connect = Callable[[int], Awaitable[socket.socket]]

_PIECE: Final = 32 << 10
# Each is a socket and two tasks.
MOST_CONNECTIONS: Final = 64
# Of a connection whose server is slow, before the tunnel waits for it: 8 MiB of a whole tunnel, as a piece has at most
# LARGEST_FRAME.
_MOST_WAITING: Final = 2
# A server that takes nothing for so long loses its connection, as the others of the tunnel wait for it.
_STUCK_SECONDS: Final = 60.0
_FAREWELL_SECONDS: Final = 5.0
_LARGEST_PORT: Final = 65535


class _Connection(Struct):
    """One connection: its streams, its bytes on the way to the Pod (None: no more come), and who moves them."""

    data: int
    errors: int
    port: int
    waiting: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_MOST_WAITING))
    task: asyncio.Task[None] | None = None


class ForwardTunnel:
    """Serves one client until it, or this server, goes."""

    def __init__(self, carrier: Carrier, connect: Connect, pod: str) -> None:
        """`connect` gives a socket that is connected with a port of the Pod; `pod` is how users know it."""
        self._carrier = carrier
        self._connect = connect
        self._pod = pod
        self._reader = SpdyReader()
        self._writer = SpdyWriter()
        # Streams for errors by their connections' numbers, until the other stream comes.
        self._half: dict[str, tuple[int, str]] = {}
        self._connections: dict[int, _Connection] = {}

    async def serve(self, stopping: asyncio.Event) -> web.StreamResponse:
        """Until the end."""
        tasks = [asyncio.create_task(each, name="port forward") for each in (self._listen(), stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            moving = [each.task for each in self._connections.values() if each.task is not None]
            for task in (*tasks, *moving):
                task.cancel()
            await asyncio.gather(*tasks, *moving, return_exceptions=True)
        return await self._carrier.close(_FAREWELL_SECONDS)

    async def _listen(self) -> None:
        try:
            while data := await self._carrier.read():
                for event in self._reader.receive(data):
                    await self._take(event)
        except SpdyError as error:
            await self._carrier.refuse(str(error))

    async def _take(self, event: Event) -> None:
        if isinstance(event, Opened):
            await self._open(event)
        elif isinstance(event, Received):
            connection = self._connections.get(event.stream)
            if connection is not None:
                await self._give(connection, event)
        elif isinstance(event, WasReset):
            connection = self._connections.get(event.stream)
            if connection is not None:
                await self._drop(connection)
        elif isinstance(event, Pinged):
            await self._send(pong_frame(event.number))

    async def _open(self, event: Opened) -> None:
        kind, number = event.headers.get("streamtype", ""), event.headers.get("requestid", "")
        port, stream = event.headers.get("port", ""), event.stream
        if len(self._connections) + len(self._half) >= MOST_CONNECTIONS:
            await self._send(reset_frame(stream, REFUSED_STREAM))
        elif kind == "error" and _is_port(port) and number not in self._half:
            self._half[number] = (stream, port)
            await self._send(self._writer.reply(stream))
        elif kind == "data" and self._half.get(number, (0, ""))[1] == port:
            errors, _ = self._half.pop(number)
            made = self._connections[stream] = _Connection(stream, errors, int(port))
            await self._send(self._writer.reply(stream))
            made.task = asyncio.create_task(self._forward(made), name="port forward connection")
        else:
            await self._send(reset_frame(stream, REFUSED_STREAM))

    async def _give(self, connection: _Connection, event: Received) -> None:
        try:
            async with asyncio.timeout(_STUCK_SECONDS):
                if event.data:
                    await connection.waiting.put(event.data)
                if event.ends:
                    await connection.waiting.put(None)
        except TimeoutError:
            await self._drop(connection)

    async def _drop(self, connection: _Connection) -> None:
        if connection.task is not None:
            connection.task.cancel()
        await self._send(reset_frame(connection.data, CANCEL))
        # kubectl waits for the end of this one.
        await self._send(data_frame(connection.errors, b"", ends=True))

    async def _forward(self, connection: _Connection) -> None:
        """Move a connection's bytes until its server, or its client, has had enough."""
        why = ""
        try:
            with await self._connect(connection.port) as connected:
                taking = asyncio.create_task(_give_all(connected, connection.waiting), name="port forward input")
                try:
                    await self._send_all(connected, connection.data)
                finally:
                    taking.cancel()
                    await asyncio.gather(taking, return_exceptions=True)
        except (NoForward, OSError) as error:
            why = f"error forwarding port {connection.port} to pod {self._pod}: {_describe(error)}"
        finally:
            self._connections.pop(connection.data, None)
        if why:
            await self._send(data_frame(connection.errors, why.encode()))
        await self._send(data_frame(connection.data, b"", ends=True))
        await self._send(data_frame(connection.errors, b"", ends=True))

    async def _send_all(self, connected: socket.socket, stream: int) -> None:
        loop = asyncio.get_running_loop()
        while piece := await loop.sock_recv(connected, _PIECE):
            await self._send(data_frame(stream, piece))

    async def _send(self, frame: bytes) -> None:
        # A client that has gone is seen where it is listened to.
        with contextlib.suppress(ConnectionError):
            await self._carrier.send(frame)


async def _give_all(connected: socket.socket, waiting: asyncio.Queue[bytes | None]) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while (piece := await waiting.get()) is not None:
            await loop.sock_sendall(connected, piece)
        connected.shutdown(socket.SHUT_WR)
        return
    # The server takes no more. What still comes for it is let go, so that the tunnel goes on.
    while await waiting.get() is not None:
        continue


def _describe(error: NoForward | OSError) -> str:
    if isinstance(error, NoForward):
        return str(error)
    return os.strerror(error.errno) if error.errno else "it does not answer"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) <= _LARGEST_PORT
