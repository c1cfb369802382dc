"""Listens on local ports and leads each connection, and each sender of datagrams, to a guest by a stream of its own.

Called by `kvedge port-forward` and `kvedge rdp`. Opens sockets on this computer; lines for people are handed out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Protocol, cast

import aiohttp
from msgspec import Struct

from kvedge.client.errors import HostError
from kvedge.client.session import Session
from kvedge.client.streams.port_specs import ForwardedPort, Target
from kvedge.client.streams.stream_client import StreamClient, StreamRefused, receive
from kvedge.client.streams.stream_join import join_socket
from kvedge.client.subresources import get_object
from kvedge.kube.errors import Forbidden
from kvedge.resources.values.host_ports import join_address

# Senders of datagrams never say that they are done.
_UDP_IDLE_SECONDS: Final = 120.0
# The most datagrams that a sender may have under way until its stream is open, and the most senders.
_DATAGRAMS: Final = 64
_SENDERS: Final = 256
# An address of this computer, and the port there.
Place = tuple[str, int]


class Told(Struct, frozen=True):
    """Gets lines for people: each port that is listened on, and each connection that failed."""

    listening: Callable[[str], None]
    failed: Callable[[str], None]


def need_target(session: Session, target: Target) -> None:
    """Look whether the target is there; forwarding to one that is not would fail with its first connection only.

    Raises:
        NotFoundError: when it is not.
    """
    # A right to forward is none to read: then the first connection tells what is wrong.
    with contextlib.suppress(Forbidden):
        get_object(session, target.resource, target.name)


async def forward(
    session: Session, target: Target, ports: Sequence[ForwardedPort], told: Told, stopped: asyncio.Event
) -> None:
    """Listen on all ports until `stopped` is set.

    Raises:
        HostError: when an address cannot be listened on.
    """
    async with StreamClient(session) as client, contextlib.AsyncExitStack() as stack:
        for port in ports:
            place = await stack.enter_async_context(forward_one(client, target, port, told.failed))
            told.listening(f"forwarding {port.protocol} {join_address(*place)} to {port.remote}")
        await stopped.wait()


@contextlib.asynccontextmanager
async def forward_one(
    client: StreamClient, target: Target, port: ForwardedPort, failed: Callable[[str], None]
) -> AsyncIterator[Place]:
    """One port, while it is listened on: its place. `failed` gets a line for a connection that failed.

    Raises:
        HostError: when the address cannot be listened on.
    """
    try:
        listener = await _listen(_Way(client, target, port, failed))
    except OSError as error:
        raise HostError(
            f"cannot listen on {join_address(port.address, port.local)}: {error.strerror or error}; name another "
            "local port, such as 0 for any free one"
        ) from error
    try:
        yield listener.place
    finally:
        await listener.close()


def port_call(port: ForwardedPort) -> str:
    """The subresource that leads to a port of a guest."""
    return f"portforward/{port.remote}/{port.protocol}"


class _Way(Struct, frozen=True):
    """Where one local port leads."""

    client: StreamClient
    target: Target
    port: ForwardedPort
    failed: Callable[[str], None]

    async def open(self) -> aiohttp.ClientWebSocketResponse:
        return await self.client.open(self.target.resource, self.target.name, port_call(self.port))

    def tell(self, error: Exception) -> None:
        guest = f"{self.target.kind}/{self.target.name}"
        self.failed(f"error handling connection for port {self.port.remote} of {guest}: {error}")


async def _listen(way: _Way) -> _Listener:
    if way.port.protocol == "udp":
        return await _Datagrams.listen(way)
    return await _Connections.listen(way)


class _Listener(Protocol):
    """One local port."""

    @property
    def place(self) -> Place:
        """Where it listens."""

    async def close(self) -> None:
        """End it and all that goes through it."""


class _Connections:
    """One TCP port."""

    def __init__(self, way: _Way) -> None:
        self._way = way
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @classmethod
    async def listen(cls, way: _Way) -> _Connections:
        found = cls(way)
        found._server = await asyncio.start_server(found._accept, way.port.address, way.port.local)
        return found

    @property
    def place(self) -> Place:
        assert self._server is not None
        return _own_place(self._server.sockets[0].getsockname())

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            stream = await self._way.open()
            await join_socket(stream, reader, writer)
        except (StreamRefused, OSError, aiohttp.ClientError) as error:
            self._way.tell(error)
        finally:
            self._open.discard(task)
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    """One UDP port; each sender has a stream of its own."""

    def __init__(self, way: _Way) -> None:
        self._way = way
        self._senders: dict[Any, tuple[asyncio.Queue[bytes], asyncio.Task[None]]] = {}
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def listen(cls, way: _Way) -> _Datagrams:
        loop = asyncio.get_running_loop()
        _, found = await loop.create_datagram_endpoint(lambda: cls(way), local_addr=(way.port.address, way.port.local))
        return found

    @property
    def place(self) -> Place:
        assert self._transport is not None
        return _own_place(self._transport.get_extra_info("sockname"))

    async def close(self) -> None:
        assert self._transport is not None
        self._transport.close()
        tasks = [task for _, task in self._senders.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        known = self._senders.get(addr)
        if known is None:
            if len(self._senders) >= _SENDERS:
                # Lost, as on any network that is too busy.
                return
            queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=_DATAGRAMS)
            known = self._senders[addr] = (queue, asyncio.create_task(self._serve(addr, queue)))
        with contextlib.suppress(asyncio.QueueFull):
            known[0].put_nowait(data)

    async def _serve(self, addr: Any, queue: asyncio.Queue[bytes]) -> None:
        try:
            stream = await self._way.open()
            answers = asyncio.create_task(self._answer(stream, addr))
            try:
                await self._ask(stream, queue, answers)
            finally:
                answers.cancel()
                await asyncio.gather(answers, return_exceptions=True)
                await stream.close()
        except (StreamRefused, OSError, aiohttp.ClientError) as error:
            self._way.tell(error)
        finally:
            self._senders.pop(addr, None)

    async def _ask(
        self, stream: aiohttp.ClientWebSocketResponse, queue: asyncio.Queue[bytes], answers: asyncio.Task[None]
    ) -> None:
        with contextlib.suppress(TimeoutError):
            while not answers.done():
                async with asyncio.timeout(_UDP_IDLE_SECONDS):
                    data = await queue.get()
                await stream.send_bytes(data)

    async def _answer(self, stream: aiohttp.ClientWebSocketResponse, addr: Any) -> None:
        async for data in receive(stream):
            if self._transport is not None:
                self._transport.sendto(data, addr)


def _own_place(name: tuple[Any, ...]) -> Place:
    """Of a socket's name, which has more than these two with IPv6."""
    host, port = name[:2]
    return host, port
