"""A guest's screen by SPICE for a viewer of the user's own computer: the file that a page saves, and its socket.

Called by `console_app` where the console runs on that computer, as `kvedge web` does. Makes a directory that only this
user may enter, with a socket in it. Its name cannot be guessed, works until nobody has come for a minute, and is gone
once the viewer has left: the file that names it is worth nothing afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from kvedge.client.errors import HostError, RefusedError
from kvedge.client.session import Session
from kvedge.client.streams.spice_channels import SpiceChannels, make_private_place
from kvedge.client.streams.stream_client import StreamClient
from kvedge.client.streams.viewer_files import NotOneLine, render_viewer_file
from kvedge.web.texts.shown_text import showable

log = logging.getLogger(__name__)

S = TypeVar("S")

_COME_SECONDS: Final = 60.0
_REMEDY: Final = "set XDG_RUNTIME_DIR or TMPDIR to a directory of yours with room"


class SpiceDoor:
    """One that is being kept: what it leads to, its file, and whether its viewer has come."""

    def __init__(self, namespace: str, name: str, *, takes_over: bool = False) -> None:
        """With `takes_over` another viewer loses the screen to this one. Made in the event loop."""
        self.namespace = namespace
        self.name = name
        self.takes_over = takes_over
        self.file: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.is_used = False


class SpiceDoors(Generic[S]):
    """All that are kept, by the sessions that asked for them; in one event loop."""

    def __init__(self, keep: Callable[[S, SpiceDoor], Awaitable[str]]) -> None:
        """`keep` serves one until it is over, and says how it ended."""
        self._keep = keep
        self._kept: dict[asyncio.Task[str], tuple[S, SpiceDoor]] = {}

    async def open(self, session: S, door: SpiceDoor) -> str | None:
        """The file for the door's viewer, which goes on when this is answered; None when the session has ended.

        A session's earlier door to the same screen ends when nobody has come by it: its file is worth nothing then.

        Raises:
            RefusedError: when a later door has taken this one's place.
            Exception: what `keep` raises.
        """
        task = asyncio.ensure_future(self._keep_after(self._end_unused(session, door), session, door))
        self._kept[task] = session, door
        task.add_done_callback(self._kept.pop)
        task.add_done_callback(partial(_note_end, door))
        await asyncio.wait({task, door.file}, return_when=asyncio.FIRST_COMPLETED)
        if door.file.done():
            return door.file.result()
        if task.cancelled():
            raise RefusedError("another viewer's file of this screen was asked for since")
        task.result()
        return None

    async def end_all(self) -> None:
        """End them with all that look by them."""
        for task in (tasks := list(self._kept)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end_unused(self, session: S, door: SpiceDoor) -> list[asyncio.Task[str]]:
        formers = [
            task
            for task, (owner, other) in self._kept.items()
            if owner is session and (other.namespace, other.name) == (door.namespace, door.name) and not other.is_used
        ]
        for task in formers:
            task.cancel()
        return formers

    async def _keep_after(self, formers: Collection[asyncio.Task[str]], session: S, door: SpiceDoor) -> str:
        if formers:
            # They give back their places.
            await asyncio.wait(formers)
        return await self._keep(session, door)


async def keep_spice_door(session: Session, door: SpiceDoor) -> str:
    """Until the viewer or the guest ends it, or none comes: which, for a log. `door.file` gets the viewer's file.

    Raises:
        TakenError: when somebody else looks at the screen, and the door takes nothing over.
        ClientError: when the server refuses, with its words, or this computer has no place for the socket.
    """
    here = replace(session, namespace=door.namespace)
    async with StreamClient(here) as client:
        channels = SpiceChannels(client, door.name, _warn, keeps_other=not door.takes_over)
        # What is in the way is told before there is a file.
        await channels.check()
        try:
            with make_private_place() as directory:
                return await _serve(channels, Path(directory) / "screen", door)
        except (OSError, NotOneLine) as error:
            raise HostError(f"cannot make a socket for the viewer: {error}; {_REMEDY}") from error
        finally:
            await channels.close()


async def _serve(channels: SpiceChannels, socket: Path, door: SpiceDoor) -> str:
    server = await asyncio.start_unix_server(channels.accept, socket)
    async with server:
        try:
            if not door.file.done():
                door.file.set_result(render_viewer_file(str(socket), f"{door.namespace}/{door.name}"))
            try:
                async with asyncio.timeout(_COME_SECONDS):
                    await channels.came.wait()
            except TimeoutError:
                return "no viewer came"
            door.is_used = True
            await channels.gone.wait()
            return "the viewer left"
        finally:
            # The server's end waits for its connections from Python 3.12.1 on.
            server.close()
            await channels.close()


def _warn(line: str) -> None:
    log.warning("%s", showable(line))


def _note_end(door: SpiceDoor, task: asyncio.Task[str]) -> None:
    """How a screen by SPICE ended, in the log: its page has gone on, unless it was answered with a failure."""
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or not door.file.done():
        return
    level, how = (
        (logging.INFO, task.result()) if error is None else (logging.WARNING, str(error) or type(error).__name__)
    )
    guest = f"{door.namespace}/{door.name}"
    log.log(level, "the screen of %s by SPICE has ended: %s", showable(guest), showable(how))
