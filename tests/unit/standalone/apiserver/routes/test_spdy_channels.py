# Tests: kvedge/standalone/apiserver/wire/spdy_carriers.py
"""Channels of exec and attach as streams of SPDY: which are opened, what they carry, and what makes no sense."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kvedge.standalone.apiserver.routes import remote_command as words
from kvedge.standalone.apiserver.routes import spdy_channels
from kvedge.standalone.apiserver.routes.spdy_channels import SpdyChannels
from kvedge.standalone.apiserver.wire.spdy_frames import (
    CANCEL,
    DICTIONARY,
    REFUSED_STREAM,
    SpdyError,
    data_frame,
    pong_frame,
    reset_frame,
)

ALL = (words.ERROR, words.STDIN, words.STDOUT)
# As client-go opens them.
OPENED = (("error", 1), ("stdin", 3), ("stdout", 5))


class Client:
    """A carrier, and what a client says by it: `read` waits for nobody."""

    def __init__(self) -> None:
        self._compress = zlib.compressobj(zdict=DICTIONARY)
        self.says: list[bytes] = []
        self.heard: list[bytes] = []
        self.waits = asyncio.Event()
        self.closed = False

    def open(self, *streams: tuple[str, int]) -> None:
        for kind, number in streams:
            texts = ("streamtype", kind)
            block = (1).to_bytes(4) + b"".join(len(text).to_bytes(4) + text.encode() for text in texts)
            packed = self._compress.compress(block) + self._compress.flush(zlib.Z_SYNC_FLUSH)
            body = number.to_bytes(4) + bytes(6) + packed
            self.says.append(b"\x80\x03\x00\x01" + len(body).to_bytes(4) + body)

    async def read(self) -> bytes:
        if not self.says:
            if self.waits.is_set():
                await asyncio.Event().wait()
            return b""
        return self.says.pop(0)

    async def send(self, frame: bytes) -> None:
        self.heard.append(frame)

    async def refuse(self, why: str) -> None:
        raise AssertionError(why)

    async def close(self, seconds: float) -> Any:
        self.closed = True


def run(what: Callable[[Client, SpdyChannels], Awaitable[None]], wanted: tuple[int, ...] = ALL) -> None:
    async def inside() -> None:
        client = Client()
        await what(client, SpdyChannels(client, wanted))

    asyncio.run(inside())


async def listen(channels: SpdyChannels) -> list[bytes]:
    return [message.data async for message in channels]


def test_what_a_client_says_comes_by_its_channels() -> None:
    async def what(client: Client, channels: SpdyChannels) -> None:
        client.open(*OPENED)
        client.says += [data_frame(3, b"one"), data_frame(3, b"two", ends=True), data_frame(5, b"nothing of ours")]
        await channels.open()
        assert len(client.heard) == 3
        end = bytes([words.CLOSE, words.STDIN])
        assert await listen(channels) == [bytes([words.STDIN]) + b"one", bytes([words.STDIN]) + b"two", end]

    run(what)


def test_what_is_said_goes_out_by_the_streams_and_ends_with_them() -> None:
    async def what(client: Client, channels: SpdyChannels) -> None:
        client.open(*OPENED)
        await channels.open()
        client.heard.clear()
        for channel in (words.STDOUT, words.STDERR, words.ERROR):
            await channels.send_bytes(bytes([channel]) + b"text")
        # Nobody has opened a stream for errors.
        assert client.heard == [data_frame(5, b"text"), data_frame(1, b"text")]
        client.heard.clear()
        await channels.close()
        assert sorted(client.heard) == sorted(data_frame(number, b"", ends=True) for _, number in OPENED)
        assert client.closed

    run(what)


def test_a_window_a_ping_and_a_stream_that_the_client_gives_up() -> None:
    async def what(client: Client, channels: SpdyChannels) -> None:
        client.open(("error", 1), ("stdin", 3), ("stdout", 5), ("resize", 7))
        await channels.open()
        client.heard.clear()
        size = b'{"Width":80,"Height":24}\n'
        client.says += [data_frame(7, size), pong_frame(9), reset_frame(5, CANCEL), reset_frame(3, CANCEL)]
        said = await listen(channels)
        assert said == [bytes([words.RESIZE]) + size, bytes([words.CLOSE, words.STDIN])]
        assert words.window_of(said[0][1:]) == (80, 24)
        assert client.heard == [pong_frame(9)]
        await channels.send_bytes(bytes([words.STDOUT]) + b"text")
        assert client.heard == [pong_frame(9)]

    run(what, (*ALL, words.RESIZE))


def test_a_stream_that_nobody_asked_for_is_refused() -> None:
    async def what(client: Client, channels: SpdyChannels) -> None:
        client.open(("stderr", 1), ("error", 3), ("error", 5), ("odd", 7), ("stdin", 9), ("stdout", 11))
        await channels.open()
        assert [frame for frame in client.heard if frame[3] == 3] == [
            reset_frame(number, REFUSED_STREAM) for number in (1, 5, 7)
        ]

    run(what)


def test_bytes_that_come_before_the_other_streams_wait_for_them() -> None:
    async def what(client: Client, channels: SpdyChannels) -> None:
        client.open(("stdin", 1))
        client.says.append(data_frame(1, b"early"))
        client.open(("error", 3), ("stdout", 5))
        client.says.append(data_frame(1, b"late"))
        await channels.open()
        assert [said[1:] for said in await listen(channels)] == [b"early", b"late"]

    run(what)


def test_a_client_that_floods_before_its_streams_are_open_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdy_channels, "_MOST_EARLY", 1024)

    async def what(client: Client, channels: SpdyChannels) -> None:
        client.open(("stdin", 1))
        client.says += [data_frame(1, b"x" * 100)] * 10 + [pong_frame(1)] * 10
        with pytest.raises(SpdyError, match="before the streams are open"):
            await channels.open()

    run(what)


def test_a_client_that_opens_nothing_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdy_channels, "_OPEN_SECONDS", 0.01)

    async def what(client: Client, channels: SpdyChannels) -> None:
        client.waits.set()
        with pytest.raises(SpdyError, match="not opened in time"):
            await channels.open()
        client.waits.clear()
        with pytest.raises(ConnectionResetError):
            await channels.open()

    run(what)


def test_what_makes_no_sense_ends_what_a_client_says() -> None:
    async def what(client: Client, channels: SpdyChannels) -> None:
        client.open(*OPENED)
        await channels.open()
        client.says += [data_frame(3, b"text"), b"\x80\x09\x00\x01\x00\x00\x00\x00", data_frame(3, b"more")]
        assert [said[1:] for said in await listen(channels)] == [b"text"]

    run(what)
