"""A connection that both sides want to use for something else than HTTP: bytes go through unread.

Used by the aggregation proxy for websockets. The other server's answer decides: 101 opens the tunnel, anything else is
an answer like any other.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from kvedge.runtime.serving.stream_core import STUCK_SECONDS
from kvedge.standalone.apiserver.aggregation.service_resolver import Backend
from kvedge.standalone.apiserver.wire.api_errors import ServiceUnavailable
from kvedge.standalone.apiserver.wire.switched_connection import SwitchedConnection, switch_connection

_BODY_LIMIT: Final = 1024 * 1024
_ANSWER_SECONDS: Final = 30.0
# While one side takes nothing we do not see the other one go. The ends of a stream judge each other earlier.
_STUCK_SECONDS: Final = STUCK_SECONDS + 60.0
_GOODBYE_SECONDS: Final = 60.0
_CHUNK: Final = 64 * 1024


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
    connection = await switch_connection(request, answered)
    await _carry(connection, reader, writer)
    return connection.response


async def _carry(connection: SwitchedConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    up = asyncio.create_task(_pump_up(connection, writer), name="tunnel to the aggregated server")
    down = asyncio.create_task(_pump_down(connection, reader), name="tunnel to the client")
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        await connection.close(_GOODBYE_SECONDS)


async def _pump_up(connection: SwitchedConnection, writer: asyncio.StreamWriter) -> None:
    while data := await connection.read():
        writer.write(data)
        async with asyncio.timeout(_STUCK_SECONDS):
            await writer.drain()


async def _pump_down(connection: SwitchedConnection, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(_CHUNK):
        async with asyncio.timeout(_STUCK_SECONDS):
            await connection.send(data)


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
