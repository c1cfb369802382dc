"""A guest's RDP server behind a local port, for as long as a viewer looks, or until somebody ends it.

Called by `kvedge rdp`. Listens on this computer and may start a viewer.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from typing import Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.guests.program_join import run_program
from kvedge.cli.guests.stream_runs import run_here
from kvedge.client.session import Session
from kvedge.client.streams.port_forwarder import forward_one, port_call
from kvedge.client.streams.port_specs import ForwardedPort, Target
from kvedge.client.streams.stream_client import StreamClient
from kvedge.client.subresources import VMI
from kvedge.resources.values.host_ports import join_address

# FreeRDP tells by smaller ones how a session ended: that its user has logged off, for one.
_FIRST_FAILURE: Final = 128


def show(session: Session, vmi: str, port: ForwardedPort, command: Callable[[str], Sequence[str]] | None) -> None:
    """Until the viewer ends that `command(ADDRESS:PORT)` is; without one, until SIGINT or SIGTERM.

    Raises:
        Refused: when nothing answers at the guest's port, or the viewer fails.
    """
    run_here(_show(session, vmi, port, command))


async def _show(
    session: Session, vmi: str, port: ForwardedPort, command: Callable[[str], Sequence[str]] | None
) -> None:
    async with StreamClient(session) as client:
        await client.check(VMI, vmi, port_call(port))
        async with forward_one(client, Target(VMI, vmi), port, _tell) as (host, local):
            if command is None:
                await _wait_for_signal(local)
                return
            async with run_program(command(join_address(host, local))) as process:
                code = await process.wait()
    if code >= _FIRST_FAILURE or code < 0:
        raise Refused(f"the viewer ended with code {code}", Exit.FAILED)


async def _wait_for_signal(port: int) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    # A caller behind a pipe waits for this line.
    print(json.dumps({"port": port}, separators=(",", ":")), flush=True)
    await stopped.wait()


def _tell(text: str) -> None:
    click.echo(text, err=True)
