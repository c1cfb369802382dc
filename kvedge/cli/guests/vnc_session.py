"""A guest's screen behind a local port, for one viewer, for as long as that looks.

Called by `kvedge vnc`. Listens on this computer and may start a viewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import Any, Final

import aiohttp

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.guests.stream_runs import run_here
from kvedge.cli.guests.vnc_viewers import Viewer
from kvedge.client.session import Session
from kvedge.client.streams.stream_client import StreamClient, StreamRefused
from kvedge.client.streams.stream_join import join_socket
from kvedge.client.subresources import VMI
from kvedge.runtime.program import foreign_environment

# A viewer that has not come by then never will.
_VIEWER_SECONDS: Final = 60.0
# A screen that nobody looks at has no rest to wait for.
_REST_SECONDS: Final = 0.0


def show(
    session: Session, vmi: str, address: tuple[str, int], viewer: Viewer | None, *, preserve_session: bool
) -> None:
    """Until the viewer or the guest ends it; without a `viewer` of our own, until one that comes does.

    Raises:
        Refused: when there is no screen to be had, or no viewer comes.
    """
    run_here(_show(session, vmi, address, viewer, preserve_session))


async def _show(
    session: Session, vmi: str, address: tuple[str, int], viewer: Viewer | None, preserve_session: bool
) -> None:
    # Written out as virtctl does, always.
    query = {"preserveSession": "true" if preserve_session else "false"}
    async with StreamClient(session) as client:
        try:
            stream = await client.open(VMI, vmi, "vnc", query)
        except StreamRefused as refused:
            raise await asyncio.to_thread(client.explain, refused, VMI, vmi) from refused
        try:
            await _serve(stream, address, viewer)
        finally:
            await stream.close()


async def _serve(stream: aiohttp.ClientWebSocketResponse, address: tuple[str, int], viewer: Viewer | None) -> None:
    arrived: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if arrived.done():
            # The stream is one viewer's.
            writer.close()
        else:
            arrived.set_result((reader, writer))

    try:
        server = await asyncio.start_server(accept, *address)
    except OSError as error:
        raise Refused(f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}", Exit.HOST) from error
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        if viewer is None:
            # A caller behind a pipe waits for this line.
            print(json.dumps({"port": port}, separators=(",", ":")), flush=True)
            reader, writer = await arrived
            await join_socket(stream, reader, writer, _REST_SECONDS)
            return
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        process = await _start(viewer, place)
        try:
            reader, writer = await _wait_for_viewer(arrived, process)
            await join_socket(stream, reader, writer, _REST_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _start(viewer: Viewer, place: str) -> asyncio.subprocess.Process:
    command = viewer.command(place)
    try:
        return await asyncio.create_subprocess_exec(*command, env=foreign_environment(os.environ))
    except OSError as error:
        raise Refused(f"{command[0]} cannot be run: {error.strerror}", Exit.HOST) from error


async def _wait_for_viewer(
    arrived: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]], process: asyncio.subprocess.Process
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    ended = asyncio.create_task(process.wait())
    try:
        waited: set[asyncio.Future[Any]] = {arrived, ended}
        await asyncio.wait(waited, timeout=_VIEWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if arrived.done():
            return arrived.result()
        if ended.done():
            raise Refused(f"the viewer ended with code {ended.result()} before it connected", Exit.FAILED)
        raise Refused(f"the viewer did not connect within {_VIEWER_SECONDS:.0f} s", Exit.TIMED_OUT)
    finally:
        ended.cancel()
