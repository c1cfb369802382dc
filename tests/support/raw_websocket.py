"""A websocket client of few lines that ends its connection at once: tests leave no half-closed socket behind."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from urllib.parse import urlsplit

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


class UpgradeRefused(AssertionError):
    """The server answered something else than 101: its status and its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class RawWebSocket:
    """One connection. `protocol` is what the server chose."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.protocol = ""

    @classmethod
    async def open(cls, url: str, context: ssl.SSLContext, protocol: str = "") -> RawWebSocket:
        """Connect and upgrade; the test fails with UpgradeRefused when the server does not agree."""
        made = await cls.begin(url, context, protocol)
        await made._finish()
        return made

    @classmethod
    async def begin(cls, url: str, context: ssl.SSLContext, protocol: str = "") -> RawWebSocket:
        """Connect and ask for the upgrade, without waiting for the answer."""
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
        lines = [
            f"GET {parts.path}{'?' if parts.query else ''}{parts.query} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            *([f"Sec-WebSocket-Protocol: {protocol}"] if protocol else []),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        return cls(reader, writer)

    async def _finish(self) -> None:
        answered = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        if not answered.startswith("HTTP/1.1 101 "):
            await self._refuse(answered)
        for line in answered.split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "sec-websocket-protocol":
                self.protocol = value.strip()

    async def _refuse(self, head: str) -> None:
        try:
            length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))
            body = await self._reader.readexactly(int(length.partition(":")[2]))
        finally:
            self.vanish()
        raise UpgradeRefused(int(head.split()[1]), str(json.loads(body).get("message", "")))

    def send(self, data: bytes, opcode: int = BINARY) -> None:
        """Send one message, masked with zeros."""
        if len(data) < 126:
            length = bytes([0x80 | len(data)])
        elif len(data) < 65536:
            length = bytes([0x80 | 126]) + struct.pack("!H", len(data))
        else:
            length = bytes([0x80 | 127]) + struct.pack("!Q", len(data))
        self._writer.write(bytes([0x80 | opcode]) + length + bytes(4) + data)

    async def drain(self) -> None:
        """Wait while the server takes nothing."""
        await self._writer.drain()

    async def receive_data(self) -> bytes:
        """The next data, whatever else comes before it; the end of the connection fails the test."""
        while True:
            opcode, content = await self.receive()
            assert opcode != CLOSE, content
            if opcode == BINARY:
                return content

    async def receive_close(self) -> tuple[int, str, bytes]:
        """The close code, the reason, and the data that came before it."""
        before: list[bytes] = []
        while True:
            opcode, content = await self.receive()
            if opcode == CLOSE:
                return int.from_bytes(content[:2]), content[2:].decode(), b"".join(before)
            if opcode == BINARY:
                before.append(content)

    async def receive_drop(self) -> bytes:
        """The data that came before the connection ended, in order for TLS and without a close frame."""
        before: list[bytes] = []
        while True:
            try:
                opcode, content = await self.receive()
            except asyncio.IncompleteReadError as end:
                if end.partial:
                    raise
                return b"".join(before)
            assert opcode != CLOSE, content
            if opcode == BINARY:
                before.append(content)

    async def receive(self) -> tuple[int, bytes]:
        """The opcode and the content of the next frame."""
        first, second = await self._reader.readexactly(2)
        size = second
        if second == 126:
            (size,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif second == 127:
            (size,) = struct.unpack("!Q", await self._reader.readexactly(8))
        return first & 15, await self._reader.readexactly(size)

    async def leave(self) -> None:
        """Close in order: the close frame, and the server's answer to it."""
        self.send(struct.pack("!H", 1000), CLOSE)
        await self.receive_close()
        self.vanish()

    def reset(self) -> None:
        """Tear the connection off: the other side gets a TCP reset."""
        connection = self._writer.get_extra_info("socket")
        # None when the server was first.
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.vanish()

    def vanish(self) -> None:
        """Be gone without a word."""
        self._writer.transport.abort()
