"""A door to guests that are unix sockets of this process: what is written comes back, as from a terminal's echo.

It stands in for launchers where no QEMU runs; the sockets, their back-pressure and their ends are real.
"""

from __future__ import annotations

import asyncio
import socket

from kvedge.handler.launchers.console_log import LogRequest
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.handler.launchers.vsock_request import VsockRequest
from kvedge.network.insight.capture import CaptureRequest
from kvedge.resources.codec import JsonObject, encode_json
from kvedge.resources.guest_verbs import GuestVerb
from tests.support.played_screen import PlayedScreen


class EchoDoor:
    """Opens streams to echoing guests, each of which should have one viewer at a time; remembers calls."""

    def __init__(self) -> None:
        self._guests: set[asyncio.Task[None]] = set()
        self.calls: list[tuple[str, str, str]] = []
        self.open_streams = 0
        self.most_open_streams = 0
        self.refusal: DoorError | None = None
        # The launcher's end of each stream that was opened.
        self.sockets: list[str] = []
        self.ports: list[VsockRequest] = []
        self.answer: JsonObject = {}
        # What came with the latest call.
        self.options: JsonObject = {}
        self.picture = b"\x89PNG"
        self.console_text = b""
        self.stats_answer = b"{}"
        # Guests that do not read: set for tests of slow sides.
        self.deaf = False
        # Guests that print without end to whoever looks.
        self.flooding = False
        self.printed = 0
        # Guests whose stream begins as that of a screen by VNC, without a password.
        self.speaks_rfb = False
        # A screen that guests have instead of their echo.
        self.screen: PlayedScreen | None = None

    async def open_stream(
        self, namespace: str, name: str, stream: GuestVerb
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.sockets.append(stream.socket)
        return await self._open()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.refusal is not None:
            raise self.refusal
        ours, theirs = socket.socketpair()
        guest = asyncio.create_task(self._serve(*await asyncio.open_connection(sock=theirs)))
        self._guests.add(guest)
        guest.add_done_callback(self._guests.discard)
        return await asyncio.open_connection(sock=ours)

    async def open_vsock(
        self, namespace: str, name: str, wanted: VsockRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.ports.append(wanted)
        return await self._open()

    def check_vsock(self, namespace: str, name: str) -> int:
        if self.refusal is not None:
            raise self.refusal
        return 3

    def check_stream(self, namespace: str, name: str, stream: GuestVerb) -> None:
        if self.refusal is not None:
            raise self.refusal

    async def call(self, namespace: str, name: str, verb: GuestVerb, options: JsonObject) -> JsonObject:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append((namespace, name, verb.name))
        self.options = options
        return self.answer

    async def stats(self) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        return self.stats_answer

    async def usage(self, namespace: str, name: str, span: str) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append((namespace, name, f"usage {span}"))
        return encode_json(self.answer)

    async def screenshot(self, namespace: str, name: str, verb: GuestVerb, *, move_cursor: bool) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append((namespace, name, "screenshot and move" if move_cursor else "screenshot"))
        return self.picture

    async def network(self, namespace: str, name: str) -> JsonObject:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append((namespace, name, "network"))
        return self.answer

    async def capture(self, namespace: str, name: str, wanted: CaptureRequest) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append((namespace, name, f"capture {wanted.interface} {wanted.most_bytes} {wanted.seconds:.0f}"))
        return self.picture

    async def console_log(self, namespace: str, name: str, wanted: LogRequest) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append((namespace, name, "console/log"))
        return b"" if wanted.previous else self.console_text[-wanted.tail_bytes :]

    def end_streams(self) -> None:
        """End all guests, from any thread."""
        for guest in list(self._guests):
            guest.get_loop().call_soon_threadsafe(guest.cancel)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_streams += 1
        self.most_open_streams = max(self.most_open_streams, self.open_streams)
        try:
            while self.flooding:
                writer.write(b"flood " * 1024)
                await writer.drain()
                self.printed += 6 * 1024
            if self.screen is not None:
                await self.screen.serve(reader, writer)
                return
            if self.speaks_rfb:
                writer.write(b"RFB 003.008\n")
                assert await reader.readexactly(12) == b"RFB 003.008\n"
                writer.write(b"\1\1")
                assert await reader.readexactly(1) == b"\1"
                writer.write(b"\0\0\0\0")
            while data := await reader.read(4096):
                while self.deaf:
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            self.open_streams -= 1
            writer.close()
