"""Listens on local ports and leads each connection, and each sender of datagrams, to a guest by a stream of its own.

Called by `kvedge port-forward`. Opens sockets on this computer.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

import aiohttp
import click

from kvedge.cli.exits import Exit, Refused
from kvedge.client.session import Session
from kvedge.client.streams.port_specs import ForwardedPort, Target
from kvedge.client.streams.stream_client import StreamClient, StreamRefused, received, run_streams
from kvedge.client.streams.stream_join import join_socket, join_stdio
from kvedge.client.subresources import get_object
from kvedge.kube.errors import Forbidden

# Senders of datagrams never say that they are done.
_UDP_IDLE_SECONDS: Final = 120.0
# What a sender may have under way until its stream is open, and how many senders there may be.
_DATAGRAMS: Final = 64
_SENDERS: Final = 256


def join_stdio_to(session: Session, target: Target, port: ForwardedPort) -> None:
    """One port of the guest on standard input and output, until either side ends.

    Raises:
        Refused: when the server will not open it.
    """
    run_streams(_stdio(session, target, port))


def forward(session: Session, target: Target, ports: Sequence[ForwardedPort]) -> None:
    """Listen until Ctrl-C.

    Raises:
        Refused: when the target is not there, or an address cannot be listened on.
    """
    # Who may forward need not be allowed to read: then the first connection tells what is wrong.
    with contextlib.suppress(Forbidden):
        get_object(session, target.resource, target.name)
    run_streams(_forward(session, target, ports))


async def _stdio(session: Session, target: Target, port: ForwardedPort) -> None:
    async with StreamClient(session) as client:
        try:
            stream = await client.open(target.resource, target.name, _call(port))
        except StreamRefused as refused:
            raise await asyncio.to_thread(client.explained, refused, target.resource, target.name) from refused
        await join_stdio(stream)


async def _forward(session: Session, target: Target, ports: Sequence[ForwardedPort]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with StreamClient(session) as client, contextlib.AsyncExitStack() as stack:
        for port in ports:
            try:
                listener = await _listen(client, target, port)
            except OSError as error:
                raise Refused(
                    f"cannot listen on {_place(port.address, port.local)}: {error.strerror or error}; name another "
                    "local port, such as 0 for any free one",
                    Exit.HOST,
                ) from error
            stack.push_async_callback(listener.close)
            # Whoever started this waits for the line, through a pipe too.
            print(f"forwarding {port.protocol} {listener.place} to {port.remote}", flush=True)
        await stopped.wait()


async def _listen(client: StreamClient, target: Target, port: ForwardedPort) -> _Listener:
    if port.protocol == "udp":
        return await _Datagrams.listen(client, target, port)
    return await _Connections.listen(client, target, port)


class _Listener(Protocol):
    """One local port."""

    @property
    def place(self) -> str:
        """Its address and port."""

    async def close(self) -> None:
        """End it and all that goes through it."""


class _Connections:
    """One TCP port."""

    def __init__(self, client: StreamClient, target: Target, port: ForwardedPort) -> None:
        self._client = client
        self._target = target
        self._port = port
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @classmethod
    async def listen(cls, client: StreamClient, target: Target, port: ForwardedPort) -> _Connections:
        found = cls(client, target, port)
        found._server = await asyncio.start_server(found._accept, port.address, port.local)
        return found

    @property
    def place(self) -> str:
        assert self._server is not None
        return _place(*self._server.sockets[0].getsockname()[:2])

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
            stream = await self._client.open(self._target.resource, self._target.name, _call(self._port))
            await join_socket(stream, reader, writer)
        except (StreamRefused, OSError, aiohttp.ClientError) as error:
            _tell(self._port, error)
        finally:
            self._open.discard(task)
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    """One UDP port; each sender has a stream of its own."""

    def __init__(self, client: StreamClient, target: Target, port: ForwardedPort) -> None:
        self._client = client
        self._target = target
        self._port = port
        self._senders: dict[Any, tuple[asyncio.Queue[bytes], asyncio.Task[None]]] = {}
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def listen(cls, client: StreamClient, target: Target, port: ForwardedPort) -> _Datagrams:
        loop = asyncio.get_running_loop()
        _, found = await loop.create_datagram_endpoint(
            lambda: cls(client, target, port), local_addr=(port.address, port.local)
        )
        return found

    @property
    def place(self) -> str:
        assert self._transport is not None
        return _place(*self._transport.get_extra_info("sockname")[:2])

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
            stream = await self._client.open(self._target.resource, self._target.name, _call(self._port))
            answers = asyncio.create_task(self._answer(stream, addr))
            try:
                await self._ask(stream, queue, answers)
            finally:
                answers.cancel()
                await asyncio.gather(answers, return_exceptions=True)
                await stream.close()
        except (StreamRefused, OSError, aiohttp.ClientError) as error:
            _tell(self._port, error)
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
        async for data in received(stream):
            if self._transport is not None:
                self._transport.sendto(data, addr)


def _call(port: ForwardedPort) -> str:
    return f"portforward/{port.remote}/{port.protocol}"


def _place(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _tell(port: ForwardedPort, error: Exception) -> None:
    click.echo(f"error handling connection for {port.local}: {error}", err=True)
