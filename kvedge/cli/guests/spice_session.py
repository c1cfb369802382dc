"""A guest's screen by SPICE behind a unix socket of this computer, for one viewer, for as long as that looks.

Called by `kvedge spice`. Makes a directory that only this user may enter, with the socket and the viewer's file in it,
and may start a viewer. A SPICE client has a connection for each of its channels: display, input, cursor, sound, USB.
Each is led to the guest by a stream of its own, which the API server lets in or refuses by the user's rights, so that
nothing here has to be kept secret for longer than the viewer looks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.guests.program_join import REST_SECONDS, run_program, wait_for_program
from kvedge.cli.guests.stream_runs import run_here
from kvedge.client.session import Session
from kvedge.client.streams.stream_client import StreamClient, StreamRefused
from kvedge.client.streams.stream_join import join_socket
from kvedge.client.streams.viewer_files import NotOneLine, render_viewer_file
from kvedge.client.subresources import VMI

_CALL: Final = "spice"
# What people call the program.
_VIEWER: Final = "the viewer"


def show(session: Session, vmi: str, viewer: str | None, seconds: float) -> None:
    """Until the viewer or the guest ends it; without a `viewer` of our own, until one that comes does.

    Args:
        session: whose rights count.
        vmi: the guest.
        viewer: the program that is started with the file.
        seconds: how long the socket waits for a viewer.

    Raises:
        Refused: when there is no screen to be had, or no viewer comes.
    """
    run_here(_show(session, vmi, viewer, seconds))


async def _show(session: Session, vmi: str, viewer: str | None, seconds: float) -> None:
    async with StreamClient(session) as client:
        try:
            # The one for the first channel. What is in the way is told before a viewer is started.
            first = await client.open(VMI, vmi, _CALL)
        except StreamRefused as refused:
            raise await asyncio.to_thread(client.explain, refused, VMI, vmi) from refused
        channels = _Channels(client, vmi, first)
        try:
            with tempfile.TemporaryDirectory(prefix="kvedge-spice-", dir=_private_place()) as directory:
                await _serve(channels, Path(directory), f"{session.namespace}/{vmi}", viewer, seconds)
        finally:
            await channels.close()


def _private_place() -> str | None:
    """Where this user's sockets are, else where temporary files are."""
    place = os.environ.get("XDG_RUNTIME_DIR", "")
    return place if place and os.access(place, os.W_OK) else None


async def _serve(channels: _Channels, directory: Path, title: str, viewer: str | None, seconds: float) -> None:
    socket, file = directory / "screen", directory / "screen.vv"
    try:
        server = await asyncio.start_unix_server(channels.accept, socket)
        file.write_text(render_viewer_file(str(socket), title))
    except (OSError, NotOneLine) as error:
        raise Refused(f"cannot listen on {socket}: {error}", Exit.HOST) from error
    stopped = asyncio.Event()
    # The directory should go, too.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with server:
        try:
            if viewer is None:
                # A caller behind a pipe waits for this line.
                print(json.dumps({"file": str(file), "socket": str(socket)}, separators=(",", ":")), flush=True)
                await _wait_until_left(channels, stopped, seconds)
            else:
                await _run_viewer([viewer, str(file)], channels, stopped, seconds)
        finally:
            # The server's end waits for its connections from Python 3.12.1 on: Ctrl-C would wait for the viewer.
            server.close()
            await channels.close()


async def _wait_until_left(channels: _Channels, stopped: asyncio.Event, seconds: float) -> None:
    await wait_for_program(_wait_for_one(channels.came.wait(), stopped.wait()), _VIEWER, None, seconds)
    await _wait_for_one(channels.gone.wait(), stopped.wait())


async def _run_viewer(command: Sequence[str], channels: _Channels, stopped: asyncio.Event, seconds: float) -> None:
    """Until it ends by itself: a viewer may show why its connections were lost."""
    async with run_program(command) as process:
        await wait_for_program(_wait_for_one(channels.came.wait(), stopped.wait()), _VIEWER, process, seconds)
        await _wait_for_one(process.wait(), stopped.wait())


async def _wait_for_one(*events: Coroutine[Any, Any, object]) -> None:
    """Until the first of them has come."""
    waits = [asyncio.create_task(event) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


class _Channels:
    """The connections of the viewer, and the stream of each to the guest."""

    def __init__(self, client: StreamClient, vmi: str, first: aiohttp.ClientWebSocketResponse) -> None:
        self._client = client
        self._vmi = vmi
        self._first: aiohttp.ClientWebSocketResponse | None = first
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._is_over = False
        # Whether a viewer has come, and whether it has left.
        self.came = asyncio.Event()
        self.gone = asyncio.Event()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead one connection to the guest; called by the socket's server."""
        task = asyncio.current_task()
        assert task is not None
        if self._is_over:
            writer.close()
            return
        self._open[task] = writer
        self.came.set()
        try:
            stream = await self._next_stream()
            await join_socket(stream, reader, writer, REST_SECONDS)
        except StreamRefused as refused:
            click.echo(f"a channel of the viewer was refused: {refused}", err=True)
        except (OSError, aiohttp.ClientError):
            # An end and no failure: the viewer says that its connection was lost.
            pass
        finally:
            writer.close()
            del self._open[task]
            if not self._open:
                self.gone.set()

    async def _next_stream(self) -> aiohttp.ClientWebSocketResponse:
        first, self._first = self._first, None
        return first or await self._client.open(VMI, self._vmi, _CALL)

    async def close(self) -> None:
        """End all of them, and take none any more; it may be called again."""
        self._is_over = True
        for task, writer in self._open.items():
            # A viewer that takes nothing any more must not hold up the end.
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        if self._first is not None:
            await self._first.close()
