"""Asks the host's name servers, as they are now, on behalf of guests.

Used by the name server, in its event loop. Each question has a socket, a port and a number of its own, so that nobody
can answer it who has not seen it.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.network.host_resolver import LONGEST_RESOLV_CONF
from kvedge.standalone.names.name_message import Question, answers, is_without_result

_SECONDS: Final = 2.0
# As many as a resolver of the host's would ask.
_MOST_SERVERS: Final = 3
_LOOK_AGAIN_SECONDS: Final = 5.0
_RESOLV_CONF: Final = Path("/etc/resolv.conf")


class Answer(Struct, frozen=True):
    """What another server has said."""

    packet: bytes

    @property
    def is_without_result(self) -> bool:
        """Whether it knows no such name, or cannot tell."""
        return is_without_result(self.packet)


class OtherServers:
    """The servers that the host asks; those on its loopback too, as it is the host who asks."""

    def __init__(self, read: Callable[[], str] | None = None, port: int = 53, own: str = "") -> None:
        """`own` is the address of our own server, which is never asked."""
        self._read = read or _host_resolv_conf
        self._port = port
        self._own = own
        self._known: tuple[float, list[str]] = (0.0, [])

    async def ask(self, packet: bytes, identity: int, question: Question, *, by_stream: bool) -> Answer | None:
        """The first answer; None when nobody has one."""
        for server in self._find_servers():
            with suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(_SECONDS):
                    ask = self._ask_by_stream if by_stream else self._ask_by_datagram
                    return Answer(await ask(server, packet, identity, question))
        return None

    def _find_servers(self) -> list[str]:
        now = time.monotonic()
        looked, servers = self._known
        if not looked or now >= looked + _LOOK_AGAIN_SECONDS:
            words = [line.split() for line in self._read().splitlines()]
            servers = [word[1] for word in words if len(word) >= 2 and word[0] == "nameserver" and word[1] != self._own]
            self._known = (now, servers[:_MOST_SERVERS])
        return self._known[1]

    async def _ask_by_datagram(self, server: str, packet: bytes, identity: int, question: Question) -> bytes:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[bytes] = loop.create_future()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Waiting(found, identity, question), remote_addr=(server, self._port)
        )
        try:
            transport.sendto(packet)
            return await found
        finally:
            transport.close()

    async def _ask_by_stream(self, server: str, packet: bytes, identity: int, question: Question) -> bytes:
        reader, writer = await asyncio.open_connection(server, self._port)
        try:
            writer.write(struct.pack("!H", len(packet)) + packet)
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            said = await reader.readexactly(length)
            if not answers(said, identity, question):
                raise EOFError
            return said
        finally:
            writer.close()


class _Waiting(asyncio.DatagramProtocol):
    """Waits for the one packet that answers."""

    def __init__(self, found: asyncio.Future[bytes], identity: int, question: Question) -> None:
        self._found, self._identity, self._question = found, identity, question

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not self._found.done() and answers(data, self._identity, self._question):
            self._found.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._found.done():
            self._found.set_exception(exc)


def _host_resolv_conf() -> str:
    try:
        with _RESOLV_CONF.open("rb") as file:
            return file.read(LONGEST_RESOLV_CONF).decode(errors="replace")
    except OSError:
        return ""
