"""The two ends of `kubectl exec` and `attach` put together: channels, and a process' streams or a container's log.

Used by `exec_routes`, in the event loop. Reads and writes descriptors that do not block, and owns none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, Protocol, cast

from aiohttp import WSMessage, WSMsgType, web

from kvedge.standalone.apiserver.requests.request_target import is_true
from kvedge.standalone.apiserver.routes import remote_command as words
from kvedge.standalone.apiserver.routes.exec_source import ExecSession, read_ending
from kvedge.standalone.apiserver.routes.log_pieces import LogPieces

_PIECE: Final = 32 << 10
# A client that does not take its last message is hung up on.
_FAREWELL_SECONDS: Final = 10.0
# The server does not read the connection while a command does not take its input, so it cannot see the client go.
_STUCK_SECONDS: Final = 300.0
# Processes that a command has left behind may hold its streams open. Its own output is there when it has ended, except
# of a terminal: the kernel may take this long to pass that on.
_REST_SECONDS: Final = 0.2


class Channels(Protocol):
    """The channels of one client: a websocket has them by the first byte of each message."""

    async def send_bytes(self, message: bytes, /) -> None:
        """Send a message; raises ConnectionError when the client has gone."""

    async def close(self) -> object:
        """End them."""

    def __aiter__(self) -> AsyncIterator[WSMessage]:
        """The client's messages, until it goes."""


async def say_farewell(socket: Channels, message: bytes) -> None:
    """Send the last message and close."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(_FAREWELL_SECONDS):
            await socket.send_bytes(message)
            await socket.close()


async def _serve_until_first(
    socket: Channels,
    sending: Coroutine[Any, Any, bytes],
    listening: Coroutine[Any, Any, None],
    stopping: asyncio.Event,
) -> None:
    """Send and listen until either ends; what `sending` brings is the last message."""
    tasks = [asyncio.create_task(each, name="remote command") for each in (sending, listening, stopping.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        sent = tasks[0]
        if sent.done() and sent.exception() is None:
            await say_farewell(socket, cast("bytes", sent.result()))
        elif stopping.is_set():
            await say_farewell(socket, words.failure_message("this server stops"))
        elif tasks[1].done() and isinstance(tasks[1].exception(), InputStuck):
            await say_farewell(socket, words.failure_message(str(tasks[1].exception())))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class InputStuck(Exception):
    """A command does not take its input."""


class ExecStream:
    """Moves bytes between channels and a process until the process, or its client, goes."""

    def __init__(self, socket: Channels, session: ExecSession, request: web.BaseRequest) -> None:
        self._socket = socket
        self._session = session
        self._wanted = {stream for stream in ("stdout", "stderr") if is_true(request.query.get(stream, ""))}

    async def serve(self, stopping: asyncio.Event) -> None:
        """Until the end, or until `stopping`."""
        await _serve_until_first(self._socket, self._send_until_end(), self._listen(), stopping)

    async def _send_until_end(self) -> bytes:
        """Send what the process prints; the last message, once it has ended and everything was sent."""
        session = self._session
        outputs = [(session.output, words.STDOUT, "stdout")]
        if session.errors is not None:
            outputs.append((session.errors, words.STDERR, "stderr"))
        over = asyncio.Event()
        pumps = [asyncio.create_task(self._send(*output, over), name="exec pump") for output in outputs]
        try:
            answer = read_ending(b"".join([piece async for piece in _read_pieces(session.answer)]))
            over.set()
            # However slowly the client takes it.
            await asyncio.gather(*pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        if "exit_code" not in answer:
            return words.failure_message(str(answer.get("error")))
        return words.exit_message(answer["exit_code"]) if answer["exit_code"] else words.success()

    async def _send(self, descriptor: int, channel: int, stream: str, over: asyncio.Event) -> None:
        async for piece in _read_pieces(descriptor, over):
            if stream in self._wanted:
                await self._socket.send_bytes(bytes([channel]) + piece)

    async def _listen(self) -> None:
        """Hand on what the client sends; returns when it goes.

        Raises:
            InputStuck: the command has not taken any of its input for too long.
        """
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == words.STDIN and data:
                await self._give(data)
            elif channel == words.CLOSE and data[:1] == bytes([words.STDIN]):
                self._session.end_input()
            elif channel == words.RESIZE and (window := words.window_of(data)) is not None:
                self._session.resize(*window)

    async def _give(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._session.input is not None:
            try:
                view = view[os.write(self._session.input, view) :]
            except BlockingIOError:
                await self._await_room(self._session.input)
            except OSError:
                # It reads no more, or has ended.
                return

    async def _await_room(self, descriptor: int) -> None:
        try:
            async with asyncio.timeout(_STUCK_SECONDS):
                await _await_ready(descriptor, writes=True)
        except TimeoutError:
            text = f"the command has read nothing of its input for {_STUCK_SECONDS:.0f} seconds"
            raise InputStuck(text) from None


async def _read_pieces(descriptor: int, over: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    """What comes from a descriptor, until its other side is closed, or is silent once `over` is set."""
    while True:
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            if await _await_more(descriptor, over):
                continue
            return
        except OSError:
            # A terminal whose last process has gone.
            return
        if not piece:
            return
        yield piece


async def _await_more(descriptor: int, over: asyncio.Event | None) -> bool:
    """Wait for more; false when it is over and nothing more is there."""
    if over is None:
        await _await_ready(descriptor)
        return True
    waits = [asyncio.create_task(each, name="exec wait") for each in (_await_ready(descriptor), over.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not waits[0].done():
            await asyncio.wait(waits[:1], timeout=_REST_SECONDS)
        return waits[0].done()
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _await_ready(descriptor: int, *, writes: bool = False) -> None:
    """Wait until a descriptor can be read, or written."""
    loop = asyncio.get_running_loop()
    # Of its own: the loop knows one reader or writer for each, and a terminal's is read and written at once.
    own = os.dup(descriptor)
    event = asyncio.Event()
    add: Callable[..., None] = loop.add_writer if writes else loop.add_reader
    try:
        add(own, event.set)
        await event.wait()
    finally:
        (loop.remove_writer if writes else loop.remove_reader)(own)
        os.close(own)


class AttachStream:
    """Sends what a container prints until it, or the client, ends."""

    def __init__(self, socket: Channels, pieces: LogPieces) -> None:
        self._socket = socket
        self._pieces = pieces

    async def serve(self, stopping: asyncio.Event) -> None:
        """Until the end, or until `stopping`."""
        self._pieces.start()
        try:
            await _serve_until_first(self._socket, self._send(), self._listen(), stopping)
        finally:
            self._pieces.stop()

    async def _send(self) -> bytes:
        while (piece := await self._pieces.read()) is not None:
            await self._socket.send_bytes(bytes([words.STDOUT]) + piece)
        return words.failure_message(str(self._pieces.failure)) if self._pieces.failure else words.success()

    async def _listen(self) -> None:
        async for _ in self._socket:
            continue
