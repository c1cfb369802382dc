"""A guest's serial console on this terminal, for as long as both last.

Called by `kvedge console`. Puts the terminal into raw mode and gives it back whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import Final

import aiohttp
import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.guests.stream_runs import run_here
from kvedge.client.session import Session
from kvedge.client.streams.stream_client import StreamClient, StreamRefused, receive
from kvedge.client.subresources import VMI

# Ctrl+] (and Ctrl+5 on many keyboards), as virtctl and telnet have it.
_ESCAPE: Final = 29
_RETRY_SECONDS: Final = 1.0
_HEARTBEAT_SECONDS: Final = 10.0
# As long as the guest is not running the server answers 400, as virtctl expects.
_NOT_RUNNING: Final = 400


def attach(session: Session, vmi: str, wait_seconds: float) -> None:
    """Connect, waiting so long for the guest to run, and stay until one side leaves.

    Raises:
        Refused: when there is no console to be had.
    """
    run_here(_attach(session, vmi, time.monotonic() + wait_seconds))


async def _attach(session: Session, vmi: str, deadline: float) -> None:
    async with StreamClient(session) as client:
        socket = await _connect(session, client, vmi, deadline)
        click.echo(f"Successfully connected to {vmi} console. Press Ctrl+] or Ctrl+5 to exit console.\r", err=True)
        with _make_terminal_raw():
            ended = await _pump(socket)
    if ended:
        click.echo(f"\r\n{ended}\r", err=True)


async def _connect(
    session: Session, client: StreamClient, vmi: str, deadline: float
) -> aiohttp.ClientWebSocketResponse:
    while True:
        try:
            return await client.open(VMI, vmi, "console", heartbeat=_HEARTBEAT_SECONDS)
        except StreamRefused as refused:
            if refused.status != _NOT_RUNNING:
                raise client.explain(refused, VMI, vmi) from refused
            if time.monotonic() > deadline:
                raise Refused(f"timed out: {refused.message}{_warnings(session, vmi)}", Exit.TIMED_OUT) from refused
        await asyncio.sleep(_RETRY_SECONDS)


def _warnings(session: Session, vmi: str) -> str:
    from kvedge.client.vm_warnings import read_newest_warnings

    return read_newest_warnings(session.client, session.namespace, vmi)


async def _pump(socket: aiohttp.ClientWebSocketResponse) -> str:
    """Move bytes until one side ends; returns the words for the user."""
    typed: asyncio.Queue[bytes] = asyncio.Queue(maxsize=64)
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def on_input() -> None:
        data = os.read(descriptor, 4096)
        if not data:
            loop.remove_reader(descriptor)
        with contextlib.suppress(asyncio.QueueFull):
            typed.put_nowait(data)

    loop.add_reader(descriptor, on_input)
    sender = asyncio.create_task(_send(socket, typed))
    receiver = asyncio.create_task(_receive(socket))
    try:
        done, pending = await asyncio.wait({sender, receiver}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return next(iter(done)).result()
    finally:
        loop.remove_reader(descriptor)
        await socket.close()


async def _send(socket: aiohttp.ClientWebSocketResponse, typed: asyncio.Queue[bytes]) -> str:
    while True:
        data = await typed.get()
        # An end of input ends the session only when nobody is at a terminal to see the rest.
        if not data:
            await asyncio.sleep(0.5)
            return ""
        before, escape, _ = data.partition(bytes([_ESCAPE]))
        if before:
            await socket.send_bytes(before)
        if escape:
            return ""


async def _receive(socket: aiohttp.ClientWebSocketResponse) -> str:
    async for data in receive(socket):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return "The connection was closed by the other side."


@contextlib.contextmanager
def _make_terminal_raw() -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return
    saved = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
