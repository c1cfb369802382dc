"""A guest's screen behind a port of this computer that asks for a one-time password, for one viewer and a time.

Called by `kvedge vnc --password`. Listens on the loopback interface, where others of this computer may come as well:
one that does not know the password sees nothing of the guest, and the screen is taken over by the one that does. May
write a viewer's file, and removes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import aiohttp
import click
from msgspec import Struct

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.guests.program_join import REST_SECONDS
from kvedge.cli.guests.stream_runs import run_here
from kvedge.client.session import Session
from kvedge.client.streams.rfb_handshake import GuestHandshake, NoHandshake, ViewerHandshake, make_password
from kvedge.client.streams.stream_client import StreamClient, StreamRefused
from kvedge.client.streams.stream_join import join_socket
from kvedge.client.streams.viewer_files import render_vnc_file
from kvedge.client.subresources import VMI

_CALL: Final = "vnc"
# A user mistypes a password a few times; a program that guesses has one chance in millions of millions each time.
_MOST_TRIES: Final = 5
_MOST_CONNECTIONS: Final = 4
# A viewer asks its user for the password meanwhile.
_VIEWER_SECONDS: Final = 60.0
_GUEST_SECONDS: Final = 20.0
_CHUNK: Final = 4096
_BUSY: Final = 503


class PasswordTerms(Struct, frozen=True):
    """Where to listen, for how many seconds in all, and which file a viewer finds it by, if any."""

    address: tuple[str, int]
    seconds: float
    file: Path | None
    preserve_session: bool


def show(session: Session, vmi: str, terms: PasswordTerms) -> None:
    """Until the one viewer, the guest or the time ends it.

    Raises:
        Refused: when there is no screen to be had, or no viewer comes in time that knows the password.
    """
    run_here(_show(session, vmi, terms))


async def _show(session: Session, vmi: str, terms: PasswordTerms) -> None:
    password = make_password()
    async with StreamClient(session) as client:
        await _check(client, vmi, terms)
        door = PasswordDoor(client, vmi, password, preserve_session=terms.preserve_session)
        try:
            server = await asyncio.start_server(door.accept, *terms.address)
        except OSError as error:
            host, port = terms.address
            raise Refused(f"cannot listen on {host}:{port}: {error.strerror or error}", Exit.HOST) from error
        # The file should go, too.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, door.over.set)
        # No longer than for one viewer; nothing waits for the connections that are there.
        door.on_seated(server.close)
        host, port = server.sockets[0].getsockname()[:2]
        try:
            with _tell(terms, (host, port), password, f"{session.namespace}/{vmi}"):
                await _wait_for_end(door, terms.seconds)
        finally:
            server.close()
            await door.close()


async def _check(client: StreamClient, vmi: str, terms: PasswordTerms) -> None:
    """What is in the way is told before a viewer is waited for. Nobody's screen is taken for that."""
    try:
        await (await client.open(VMI, vmi, _CALL, {"preserveSession": "true"})).close()
    except StreamRefused as refused:
        if refused.status != _BUSY or terms.preserve_session:
            raise await asyncio.to_thread(client.explain, refused, VMI, vmi) from refused


async def _wait_for_end(door: PasswordDoor, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await door.over.wait()
    except TimeoutError:
        if not door.is_seated:
            raise Refused(f"no viewer came within {seconds:.0f} s", Exit.TIMED_OUT) from None
        click.echo(f"the time of {seconds:.0f} s is over: the viewer's session ends", err=True)
        return
    if door.failure:
        raise Refused(door.failure)


@contextlib.contextmanager
def _tell(terms: PasswordTerms, place: tuple[str, int], password: str, title: str) -> Iterator[None]:
    """How a viewer comes in, as a line on standard output or as a file for as long as this lasts."""
    told: dict[str, object] = {"port": place[1], "seconds": int(terms.seconds)}
    if terms.file is None:
        print(json.dumps({**told, "password": password}, separators=(",", ":")), flush=True)
        yield
        return
    text = render_vnc_file(*place, password, title)
    try:
        # For its owner alone from its first byte on, and never in the place of another file.
        handle = os.open(terms.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Refused(f"--viewer-file: {terms.file}: {error.strerror}", Exit.HOST) from error
    try:
        with open(handle, "w") as file:
            file.write(text)
        print(json.dumps({**told, "file": str(terms.file)}, separators=(",", ":")), flush=True)
        yield
    finally:
        terms.file.unlink(missing_ok=True)


class PasswordDoor:
    """Lets the first viewer in that knows the password, once."""

    def __init__(self, client: StreamClient, vmi: str, password: str, *, preserve_session: bool) -> None:
        self._client = client
        self._vmi = vmi
        self._password = password
        self._query = {"preserveSession": "true" if preserve_session else "false"}
        self._tries = 0
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        # The connection of the viewer that is in.
        self._seat: asyncio.Task[None] | None = None
        self._on_seated: Callable[[], None] = lambda: None
        self.over = asyncio.Event()
        self.failure = ""

    @property
    def is_seated(self) -> bool:
        """Whether a viewer is in, or was."""
        return self._seat is not None

    def on_seated(self, tell: Callable[[], None]) -> None:
        """Call `tell()` when nobody else is to be let in."""
        self._on_seated = tell

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ask one viewer, and lead it to the guest; called by the server."""
        task = asyncio.current_task()
        assert task is not None
        if self.is_seated or self.over.is_set() or len(self._open) >= _MOST_CONNECTIONS:
            writer.close()
            return
        self._open[task] = writer
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, aiohttp.ClientError, TimeoutError, NoHandshake) as error:
            # A viewer that has not shown the password is as one that has not come.
            if self._seat is task and isinstance(error, NoHandshake | TimeoutError):
                self.failure = str(error) or "the guest's screen does not answer"
        finally:
            writer.close()
            del self._open[task]
            if self._seat is task:
                self.over.set()

    async def close(self) -> None:
        """End all that is open."""
        self.over.set()
        for task, writer in self._open.items():
            # A viewer that takes nothing any more must not hold up the end.
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        viewer = ViewerHandshake(self._password)
        async with asyncio.timeout(_VIEWER_SECONDS):
            while True:
                writer.write(viewer.to_send())
                if viewer.is_over:
                    break
                await writer.drain()
                data = await reader.read(_CHUNK)
                if not data:
                    raise EOFError
                viewer.receive(data)
        if self.is_seated or self.over.is_set():
            viewer.refuse("this screen is another viewer's")
        elif not viewer.knows_password:
            self._note_failure()
            viewer.refuse("this is not the password")
        else:
            # From here on nobody else may: the password is used.
            self._seat = asyncio.current_task()
            self._on_seated()
            await self._join(viewer, reader, writer)
            return
        writer.write(viewer.to_send())
        await writer.drain()

    def _note_failure(self) -> None:
        self._tries += 1
        if self._tries >= _MOST_TRIES:
            self.failure = f"{self._tries} viewers did not know the password; ask for the screen again"
            self.over.set()

    async def _join(self, viewer: ViewerHandshake, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stream = await self._client.open(VMI, self._vmi, _CALL, self._query)
        except StreamRefused as refused:
            self.failure = refused.message
            viewer.refuse(refused.message)
            writer.write(viewer.to_send())
            await writer.drain()
            return
        try:
            guest = await _greet_guest(stream)
            viewer.accept()
            writer.write(viewer.to_send() + guest.rest())
            if rest := viewer.rest():
                await stream.send_bytes(rest)
            await join_socket(stream, reader, writer, REST_SECONDS)
        finally:
            await stream.close()


async def _greet_guest(stream: aiohttp.ClientWebSocketResponse) -> GuestHandshake:
    """Speak for the viewer, up to where it speaks for itself."""
    guest = GuestHandshake()
    async with asyncio.timeout(_GUEST_SECONDS):
        while not guest.is_over:
            message = await stream.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise NoHandshake("the guest's screen was closed")
            guest.receive(message.data)
            if said := guest.to_send():
                await stream.send_bytes(said)
    return guest
