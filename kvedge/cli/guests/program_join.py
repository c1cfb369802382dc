"""A stream to a guest joined with a program of this computer, by a local port that takes one connection.

Called by vnc_session and usbredir_session. Listens on this computer and may start the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import aiohttp

from kvedge.cli.exits import Exit, Refused
from kvedge.client.streams.stream_join import join_socket
from kvedge.runtime.program import foreign_environment

# A program that has not come by then never will.
_PROGRAM_SECONDS: Final = 60.0
# Neither a screen nor a device has a rest to wait for when its program is gone.
_REST_SECONDS: Final = 0.0

_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class LocalProgram(NamedTuple):
    """A program that connects: what people call it, and its argv for a place, ADDRESS:PORT."""

    word: str
    command: Callable[[str], Sequence[str]]


async def join_program(
    stream: aiohttp.ClientWebSocketResponse,
    address: tuple[str, int],
    program: LocalProgram | None,
    on_listening: Callable[[str, int], None],
) -> None:
    """Until the program or the guest ends it. Without a `program` of ours `on_listening(host, port)` tells where one
    is waited for.

    Raises:
        Refused: when the address cannot be listened on, or the program does not come.
    """
    arrived: asyncio.Future[_Ends] = asyncio.Future()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if arrived.done():
            # The stream is one program's.
            writer.close()
        else:
            arrived.set_result((reader, writer))

    try:
        server = await asyncio.start_server(accept, *address)
    except OSError as error:
        raise Refused(f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}", Exit.HOST) from error
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        if program is None:
            on_listening(host, port)
            reader, writer = await arrived
            await join_socket(stream, reader, writer, _REST_SECONDS)
            return
        process = await _start(program.command(write_place(host, port)))
        try:
            reader, writer = await _wait_for_program(arrived, process, program.word)
            await join_socket(stream, reader, writer, _REST_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def write_place(host: str, port: int) -> str:
    """ADDRESS:PORT, as programs take it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _start(command: Sequence[str]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(*command, env=foreign_environment(os.environ))
    except OSError as error:
        raise Refused(f"{command[0]} cannot be run: {error.strerror}", Exit.HOST) from error


async def _wait_for_program(arrived: asyncio.Future[_Ends], process: asyncio.subprocess.Process, word: str) -> _Ends:
    ended = asyncio.create_task(process.wait())
    try:
        waited: set[asyncio.Future[Any]] = {arrived, ended}
        await asyncio.wait(waited, timeout=_PROGRAM_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if arrived.done():
            return arrived.result()
        if ended.done():
            raise Refused(f"{word} ended with code {ended.result()} before it connected", Exit.FAILED)
        raise Refused(f"{word} did not connect within {_PROGRAM_SECONDS:.0f} s", Exit.TIMED_OUT)
    finally:
        ended.cancel()
