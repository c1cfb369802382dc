"""A connection that both sides want to use for something else than HTTP: bytes go through unread.

Used by the aggregation proxy for websockets. The other server's answer decides: 101 opens the tunnel, anything else is
an answer like any other.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final, cast

from aiohttp import web

from kvedge.runtime.serving.stream_core import STUCK_SECONDS
from kvedge.runtime.serving.websocket_viewer import hang_up
from kvedge.standalone.apiserver.aggregation.service_resolver import Backend
from kvedge.standalone.apiserver.wire.api_errors import ServiceUnavailable

_BODY_LIMIT: Final = 1024 * 1024
_ANSWER_SECONDS: Final = 30.0
# While one side takes nothing we do not see the other one go. The ends of a stream judge each other earlier.
_STUCK_SECONDS: Final = STUCK_SECONDS + 60.0
_GOODBYE_SECONDS: Final = 60.0
_CHUNK: Final = 64 * 1024
# So many bytes may wait for the other side before its source is paused.
_WAITING_LIMIT: Final = 256 * 1024


def wants_upgrade(request: web.BaseRequest) -> bool:
    """Whether the client asks for a websocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def tunnel(
    request: web.BaseRequest,
    headers: list[tuple[str, str]],
    backend: Backend,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> web.StreamResponse:
    """Ask the other server for the upgrade and, when it agrees, carry bytes until one side ends.

    Raises:
        ServiceUnavailable: its answer is not HTTP.
    """
    upgrade = [("Host", backend.authority), ("Connection", "Upgrade"), ("Upgrade", request.headers["Upgrade"])]
    lines = [f"{request.method} {request.path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in upgrade + headers)]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await writer.drain()
            status, answered = _parse_head(await reader.readuntil(b"\r\n\r\n"))
            if status != 101:
                return await _read_plain_answer(status, answered, reader)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise ServiceUnavailable(f"the answer to an upgrade was no HTTP: {error}") from error
    response = _Switched(status=101)
    for name, value in answered:
        response.headers.add(name, value)
    await response.prepare(request)
    await _carry(request, response, reader, writer)
    return response


class _Switched(web.StreamResponse):
    """A 101 whose body is whatever the two sides say to each other, so it has no length and no chunks."""

    _length_check = False


class _FromClient:
    """What aiohttp hands the client's bytes to once the connection is no longer HTTP."""

    def __init__(self, transport: asyncio.Transport, writer: asyncio.StreamWriter) -> None:
        self._transport = transport
        self._writer = writer
        self._waiting = bytearray()
        self._arrived = asyncio.Event()
        self._ended = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._waiting += data
        if len(self._waiting) > _WAITING_LIMIT:
            self._transport.pause_reading()
        self._arrived.set()
        return False, b""

    def feed_eof(self) -> None:
        self._ended = True
        self._arrived.set()

    async def pump(self) -> None:
        """Pass on what comes from the client until it ends."""
        while not (self._ended and not self._waiting):
            await self._arrived.wait()
            self._arrived.clear()
            data, self._waiting = bytes(self._waiting), bytearray()
            if len(data) > _WAITING_LIMIT and not self._transport.is_closing():
                self._transport.resume_reading()
            if data:
                self._writer.write(data)
                async with asyncio.timeout(_STUCK_SECONDS):
                    await self._writer.drain()


async def _carry(
    request: web.BaseRequest,
    response: web.StreamResponse,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    client = _FromClient(transport, writer)
    # Made for its websocket reader, but feed_data and feed_eof are all that aiohttp asks of a parser.
    request.protocol.set_parser(cast(Any, client))
    up = asyncio.create_task(client.pump(), name="tunnel to the aggregated server")
    down = asyncio.create_task(_pump_down(response, reader), name="tunnel to the client")
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        response.force_close()
        await _drain(request, connection)


async def _pump_down(response: web.StreamResponse, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(_CHUNK):
        async with asyncio.timeout(_STUCK_SECONDS):
            await response.write(data)


async def _drain(request: web.BaseRequest, connection: socket.socket | None) -> None:
    """Let a client take the bytes on their way. A client that takes none is hung up on, or it would hold us."""
    try:
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await request.writer.drain()
    except (ConnectionError, TimeoutError):
        hang_up(connection)


async def _read_plain_answer(
    status: int, headers: list[tuple[str, str]], reader: asyncio.StreamReader
) -> web.StreamResponse:
    known = {name.lower(): value for name, value in headers}
    if "content-length" in known:
        body = await reader.readexactly(min(int(known["content-length"]), _BODY_LIMIT))
    elif known.get("transfer-encoding", "").lower() == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.read(_BODY_LIMIT)
    response = web.Response(status=status, body=body)
    if "content-type" in known:
        response.headers["Content-Type"] = known["content-type"]
    return response


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while len(body) < _BODY_LIMIT:
        size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        if not size:
            break
        body += await reader.readexactly(min(size, _BODY_LIMIT))
        await reader.readuntil(b"\r\n")
    return body


def _parse_head(head: bytes) -> tuple[int, list[tuple[str, str]]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ", 2)
    if not version.startswith("HTTP/1."):
        raise ValueError(f"it begins with {first[:40]!r}")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers.append((name.strip(), value.strip()))
    return int(status), headers
