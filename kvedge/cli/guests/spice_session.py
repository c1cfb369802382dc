"""A guest's screen by SPICE behind a unix socket of this computer, for one viewer, for as long as that looks.

Called by `kvedge spice`. Makes a directory that only this user may enter, with the socket and the viewer's file in it,
and may start a viewer; its connections are `spice_channels`'.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.guests.program_join import run_program, wait_for_program
from kvedge.cli.guests.stream_runs import run_here
from kvedge.client.session import Session
from kvedge.client.streams.spice_channels import SPICE, SpiceChannels, make_private_place
from kvedge.client.streams.stream_client import StreamClient
from kvedge.client.streams.viewer_files import NotOneLine, render_viewer_file
from kvedge.client.subresources import VMI

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
        await client.check(VMI, vmi, SPICE)
        channels = SpiceChannels(client, vmi, lambda line: click.echo(line, err=True))
        try:
            with make_private_place() as directory:
                await _serve(channels, Path(directory), f"{session.namespace}/{vmi}", viewer, seconds)
        finally:
            await channels.close()


async def _serve(channels: SpiceChannels, directory: Path, title: str, viewer: str | None, seconds: float) -> None:
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


async def _wait_until_left(channels: SpiceChannels, stopped: asyncio.Event, seconds: float) -> None:
    await wait_for_program(_wait_for_one(channels.came.wait(), stopped.wait()), _VIEWER, None, seconds)
    await _wait_for_one(channels.gone.wait(), stopped.wait())


async def _run_viewer(command: Sequence[str], channels: SpiceChannels, stopped: asyncio.Event, seconds: float) -> None:
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
