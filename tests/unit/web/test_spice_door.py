# Tests: kvedge/web/spice_door.py
"""A screen by SPICE behind a socket: whom it waits for, and what is left of it. With a browser: tests/browser."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.client.errors import HostError, TakenError
from kvedge.client.session import Session
from kvedge.client.streams import spice_channels
from kvedge.client.streams.spice_channels import SpiceChannels
from kvedge.client.streams.stream_client import StreamRefused
from kvedge.resources.relay_protocol import SPICE_IS_BUSY
from kvedge.web import spice_door
from kvedge.web.spice_door import SpiceDoor, _serve, keep_spice_door


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

    def __init__(self, stream: QuietStream, busy: int = 0) -> None:
        """So many times somebody else is there, for those who mind."""
        self.stream = stream
        self.busy = busy
        self.opened: list[float | None] = []

    async def __aenter__(self) -> PlayedClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing of it is left."""

    async def open(
        self, resource: str, name: str, call: str, query: Any = None, heartbeat: float | None = None
    ) -> QuietStream:
        if query is not None:
            assert query == {"preserveSession": "true"}
            self.busy -= 1
            if self.busy >= 0:
                raise StreamRefused(503, SPICE_IS_BUSY)
        self.opened.append(heartbeat)
        return self.stream


def serve(place: Path, comes: bool) -> str:
    """How it ended, for a viewer that comes and leaves, or for none."""

    async def run() -> str:
        stream, door = QuietStream(), SpiceDoor("shop", "web")
        client = PlayedClient(stream)
        channels = SpiceChannels(cast(Any, client), "web")
        task = asyncio.ensure_future(_serve(channels, place, door))
        assert f"unix-path={place}\n" in await door.file
        if comes:
            _, writer = await asyncio.open_unix_connection(place)
            writer.close()
        async with asyncio.timeout(10):
            ended = await task
        assert door.is_used == comes
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
        await keep_spice_door(_session(), SpiceDoor("shop", "web"))

    monkeypatch.setattr(spice_door, "make_private_place", make_place)
    monkeypatch.setattr(spice_door, "StreamClient", lambda _: PlayedClient(QuietStream()))
    words = "No space left on device; set XDG_RUNTIME_DIR or TMPDIR to a directory of yours with room"
    with pytest.raises(HostError, match=words):
        asyncio.run(run())


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spice_channels, "_LEAVING_SECONDS", 0.0)


def _open_door(monkeypatch: pytest.MonkeyPatch, client: PlayedClient, *, takes_over: bool) -> str:
    """The file, of a screen that is looked at by somebody else."""

    async def run() -> str:
        door = SpiceDoor("shop", "web", takes_over=takes_over)
        task = asyncio.ensure_future(keep_spice_door(_session(), door))
        await asyncio.wait({task, door.file}, return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return door.file.result() if door.file.done() else task.result()

    monkeypatch.setattr(spice_door, "StreamClient", lambda _: client)
    return asyncio.run(run())


def test_a_screen_that_somebody_else_looks_at_is_left_to_them(monkeypatch: pytest.MonkeyPatch, no_pause: None) -> None:
    with pytest.raises(TakenError):
        _open_door(monkeypatch, PlayedClient(QuietStream(), busy=2), takes_over=False)
    # One that leaves meanwhile is not in the way, and with a word nobody is.
    assert "virt-viewer" in _open_door(monkeypatch, PlayedClient(QuietStream(), busy=1), takes_over=False)
    assert "virt-viewer" in _open_door(monkeypatch, PlayedClient(QuietStream(), busy=2), takes_over=True)


def test_who_comes_between_the_file_and_its_viewer_keeps_the_screen(tmp_path: Path, no_pause: None) -> None:
    """The first of a viewer's channels finds out; those after it belong to the same viewer."""
    told: list[str] = []

    async def run() -> None:
        client = PlayedClient(QuietStream(), busy=2)
        channels = SpiceChannels(cast(Any, client), "web", told.append, keeps_other=True)
        door = SpiceDoor("shop", "web")
        task = asyncio.ensure_future(_serve(channels, tmp_path / "screen", door))
        await door.file
        reader, writer = await asyncio.open_unix_connection(tmp_path / "screen")
        async with asyncio.timeout(10):
            assert await reader.read() == b""
            assert await task == "the viewer left"
        writer.close()
        assert client.opened == []

    asyncio.run(run())
    assert told == [f"a channel of the viewer was refused: {SPICE_IS_BUSY}"]


def _session() -> Session:
    return cast(Any, Session)(None, None, None, "shop")
