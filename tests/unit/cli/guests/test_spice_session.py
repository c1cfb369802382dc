# Tests: kvedge/cli/guests/spice_session.py, kvedge/cli/guests/program_join.py, kvedge/client/streams/spice_channels.py
"""A viewer's channels at a socket of this computer: who ends them, and what is said when none comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.cli.exits import Refused
from kvedge.cli.guests import spice_session
from kvedge.cli.guests.spice_session import _serve
from kvedge.client.streams.spice_channels import SpiceChannels


class QuietStream:
    """A stream to a guest that says nothing until it is closed."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self.closed = asyncio.Event()

    async def send_bytes(self, data: bytes) -> None:
        self.heard.set()

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

    async def open(self, resource: str, name: str, call: str, heartbeat: float | None = None) -> QuietStream:
        self.opened.append(heartbeat)
        return self.stream


def serve_here(directory: Path, seconds: float, viewer: str | None = None) -> tuple[Awaitable[None], QuietStream]:
    """One viewer's socket, and the stream of its first channel."""
    stream = QuietStream()
    channels = SpiceChannels(cast(Any, PlayedClient(stream)), "web")
    return _serve(channels, directory, "shop/web", viewer, seconds), stream


@pytest.fixture
def waits_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose end waits for its connections, as Python's does from 3.12.1 on."""
    start = asyncio.start_unix_server

    async def start_waiting(accept: Callable[..., Awaitable[None]], path: Path) -> Any:
        writers: list[asyncio.StreamWriter] = []

        async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            await accept(reader, writer)

        async def wait_closed() -> None:
            for writer in writers:
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

        server = await start(note, path)
        monkeypatch.setattr(server, "wait_closed", wait_closed)
        return server

    monkeypatch.setattr(spice_session.asyncio, "start_unix_server", start_waiting)


@pytest.mark.usefixtures("waits_at_its_end")
def test_the_end_does_not_wait_for_a_viewer_that_looks_on(tmp_path: Path) -> None:
    async def run() -> None:
        work, stream = serve_here(tmp_path, 30)
        task = asyncio.ensure_future(work)
        while not (tmp_path / "screen.vv").exists():
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "screen")
        writer.write(b"REDQ")
        await stream.heard.wait()
        # Ctrl-C cancels what runs.
        task.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await task
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert stream.closed.is_set()
        writer.close()

    asyncio.run(run())


def test_the_socket_is_served_until_its_viewer_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        work, stream = serve_here(tmp_path, 30)
        task = asyncio.ensure_future(work)
        while not (tmp_path / "screen.vv").exists():
            await asyncio.sleep(0)
        _, writer = await asyncio.open_unix_connection(tmp_path / "screen")
        writer.close()
        async with asyncio.timeout(10):
            await task
        assert stream.closed.is_set()

    asyncio.run(run())
    assert str(tmp_path / "screen") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("viewer", "said"),
    [
        pytest.param(None, "the viewer did not connect within 0 s", id="none comes"),
        pytest.param("/bin/false", "the viewer ended with code 1 before it connected", id="it ends at once"),
        pytest.param("/nowhere/viewer", "/nowhere/viewer cannot be run: No such file or directory", id="none is there"),
    ],
)
def test_a_viewer_that_does_not_come_is_told(viewer: str | None, said: str, tmp_path: Path) -> None:
    async def run() -> None:
        work, _ = serve_here(tmp_path, 0.01 if viewer is None else 30, viewer)
        with pytest.raises(Refused, match=said):
            await work

    asyncio.run(run())
