"""A stream to a guest joined with a program of this computer, by a local port that takes one connection.

Called by vnc_session and usbredir_session; spice_session, which has a socket of its own, runs its viewer by it. Listens
on this computer and may start the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp

from kvedge.cli.exits import Exit, Refused
from kvedge.client.streams.stream_join import join_socket
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.program import foreign_environment

# A program that has not come by then never will.
_PROGRAM_SECONDS: Final = 60.0
# Neither a screen nor a device has a rest to wait for when its program is gone.
REST_SECONDS: Final = 0.0

T = TypeVar("T")
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
            await join_socket(stream, reader, writer, REST_SECONDS)
            return
        async with run_program(program.command(join_address(host, port))) as process:
            reader, writer = await wait_for_program(arrived, program.word, process)
            await join_socket(stream, reader, writer, REST_SECONDS)


@contextlib.asynccontextmanager
async def run_program(command: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that is ended with what it is for.

    Raises:
        Refused: when it cannot be run.
    """
    try:
        process = await asyncio.create_subprocess_exec(*command, env=foreign_environment(os.environ))
    except OSError as error:
        raise Refused(f"{command[0]} cannot be run: {error.strerror}", Exit.HOST) from error
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def wait_for_program(
    arrival: Awaitable[T], word: str, process: asyncio.subprocess.Process | None, seconds: float = _PROGRAM_SECONDS
) -> T:
    """What `arrival` tells once the program is here; without a `process` somebody else's is waited for.

    Raises:
        Refused: when it does not come in time, or has ended before.
    """
    arrived = asyncio.ensure_future(arrival)
    ended = asyncio.create_task(process.wait()) if process is not None else None
    waited: list[asyncio.Future[Any]] = [arrived] if ended is None else [arrived, ended]
    try:
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if arrived.done():
            return arrived.result()
        if ended is not None and ended.done():
            raise Refused(f"{word} ended with code {ended.result()} before it connected", Exit.FAILED)
        raise Refused(f"{word} did not connect within {seconds:.0f} s", Exit.TIMED_OUT)
    finally:
        for wait in waited:
            wait.cancel()
