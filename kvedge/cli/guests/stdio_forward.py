"""A port of a guest on standard input and output, for `kvedge port-forward --stdio`, which ssh runs, and for
`kvedge vsock`.

Called by port_forward_verb and vsock_verb. Reads standard input and writes standard output until either side ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Mapping
from typing import Final

import aiohttp

from kvedge.cli.guests.stream_runs import run_here
from kvedge.client.session import Session
from kvedge.client.streams.port_specs import Target
from kvedge.client.streams.stream_client import StreamClient, receive
from kvedge.client.streams.stream_join import QUIET_SECONDS, Quiet, join

_CHUNK: Final = 64 * 1024
_STDIN: Final = 0
_STDOUT: Final = 1


def join_stdio_to(session: Session, target: Target, call: str, query: Mapping[str, str] | None = None) -> None:
    """The stream of a subresource `call` on standard input and output, until either side ends.

    Raises:
        ClientError: when the server will not open it.
    """
    run_here(_forward_stdio(session, target, call, query))


async def _forward_stdio(session: Session, target: Target, call: str, query: Mapping[str, str] | None) -> None:
    async with StreamClient(session) as client:
        await _join_stdio(await client.open_or_explain(target.resource, target.name, call, query))


async def _join_stdio(stream: aiohttp.ClientWebSocketResponse) -> None:
    """Standard input and output, until either side ends."""
    quiet = Quiet()
    typed: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)
    loop = asyncio.get_running_loop()

    def read_all() -> None:
        # Any kind of file may be standard input, and not each can be polled. The thread ends with the process.
        with contextlib.suppress(OSError, RuntimeError):
            while data := os.read(_STDIN, _CHUNK):
                asyncio.run_coroutine_threadsafe(typed.put(data), loop).result()
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(typed.put(b""), loop)

    async def send_to_guest() -> None:
        while data := await typed.get():
            await stream.send_bytes(data)

    async def write_locally() -> None:
        async for data in receive(stream):
            quiet.note_data()
            await asyncio.to_thread(_write_all, data)

    threading.Thread(target=read_all, name="stdin", daemon=True).start()
    try:
        await join(send_to_guest(), write_locally(), quiet, QUIET_SECONDS)
    finally:
        await stream.close()


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(_STDOUT, view) :]
