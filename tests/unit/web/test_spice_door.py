# Tests: kvedge/web/spice_door.py
"""A screen by SPICE behind a socket: whom it waits for, and what is left of it. With a browser: tests/browser."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.client.errors import HostError
from kvedge.client.session import Session
from kvedge.client.streams.spice_channels import SpiceChannels
from kvedge.web import spice_door
from kvedge.web.spice_door import _serve, keep_spice_door


class QuietStream:
    """A stream to a guest that says nothing until it is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def send_bytes(self, data: bytes) -> None:
        """It takes everything."""

    async def close(self) -> None:
        self.closed.set()

    def __aiter__(self) -> QuietStream:
        return self

    async def __anext__(self) -> Any:
        await self.closed.wait()
        raise StopAsyncIteration


class PlayedClient:
    """Opens the one stream, and notes with which heartbeat."""

    def __init__(self, stream: QuietStream) -> None:
        self.stream = stream
        self.opened: list[float | None] = []

    async def __aenter__(self) -> PlayedClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing of it is left."""

    async def check(self, resource: str, name: str, call: str) -> None:
        """There is a screen."""

    async def open(self, resource: str, name: str, call: str, heartbeat: float | None = None) -> QuietStream:
        self.opened.append(heartbeat)
        return self.stream


def serve(place: Path, comes: bool) -> str:
    """How it ended, for a viewer that comes and leaves, or for none."""

    async def run() -> str:
        stream, ready = QuietStream(), asyncio.get_running_loop().create_future()
        client = PlayedClient(stream)
        channels = SpiceChannels(cast(Any, client), "web")
        task = asyncio.ensure_future(_serve(channels, place, "shop/web", ready))
        assert f"unix-path={place}\n" in await ready
        if comes:
            _, writer = await asyncio.open_unix_connection(place)
            writer.close()
        async with asyncio.timeout(10):
            ended = await task
        # A stream is opened for a viewer alone, answers pings while it looks, and does not stay open for nobody.
        assert client.opened == ([30.0] if comes else [])
        assert stream.closed.is_set() == comes
        with pytest.raises((FileNotFoundError, ConnectionRefusedError)):
            await asyncio.open_unix_connection(place)
        return ended

    return asyncio.run(run())


def test_it_ends_when_its_viewer_leaves(tmp_path: Path) -> None:
    assert serve(tmp_path / "screen", comes=True) == "the viewer left"


def test_it_ends_when_none_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spice_door, "_COME_SECONDS", 0.05)
    assert serve(tmp_path / "screen", comes=False) == "no viewer came"


def test_a_computer_without_room_for_its_socket_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_place() -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def run() -> None:
        ready = asyncio.get_running_loop().create_future()
        await keep_spice_door(cast(Any, Session)(None, None, None, "shop"), "shop", "web", ready)

    monkeypatch.setattr(spice_door, "make_private_place", make_place)
    monkeypatch.setattr(spice_door, "StreamClient", lambda _: PlayedClient(QuietStream()))
    words = "No space left on device; set XDG_RUNTIME_DIR or TMPDIR to a directory of yours with room"
    with pytest.raises(HostError, match=words):
        asyncio.run(run())
