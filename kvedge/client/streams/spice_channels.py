"""A SPICE viewer's connections to a unix socket of this computer, and the stream of each to the guest.

Called by `kvedge spice` and by the web console on a user's own computer. A SPICE client has a connection for each of
its channels: display, input, cursor, sound, USB. Each is led to the guest by a stream of its own, which the API server
lets in or refuses by the user's rights, so that nothing here has to be kept secret for longer than the viewer looks.
"""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import Callable
from typing import Final

import aiohttp

from kvedge.client.errors import TakenError
from kvedge.client.streams.stream_client import StreamClient, StreamRefused
from kvedge.client.streams.stream_join import join_socket
from kvedge.client.subresources import VMI
from kvedge.resources.relay_protocol import PRESERVE_SESSION, SPICE_IS_BUSY

SPICE: Final = "spice"
# A viewer that has left has no rest to wait for.
_REST_SECONDS: Final = 0.0
# The server ends a stream whose other side answers no ping; a guest's end that nobody told is noticed as well.
_PING_SECONDS: Final = 30.0
# A connection whose viewer has just left is counted until its node has noticed.
_LEAVING_SECONDS: Final = 1.0


def make_private_place() -> tempfile.TemporaryDirectory[str]:
    """A directory that only this user may enter, where this user's sockets are, else where temporary files are.

    Raises:
        OSError: when none can be made.
    """
    return tempfile.TemporaryDirectory(
        prefix="kvedge-spice-", dir=_find_own_place(os.environ.get("XDG_RUNTIME_DIR", ""))
    )


def _find_own_place(path: str) -> str | None:
    """The directory if it is this user's alone: whoever else may write in it could put a socket in place of ours, as
    where root has kept the variable of the user that it was before.
    """
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return None
    is_ours = os.path.isabs(path) and facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return path if is_ours and os.access(path, os.W_OK) else None


class SpiceChannels:
    """The connections of one viewer."""

    def __init__(
        self,
        client: StreamClient,
        vmi: str,
        tell: Callable[[str], None] = lambda line: None,
        *,
        keeps_other: bool = False,
    ) -> None:
        """`tell` gets a line for each channel that is refused; with `keeps_other` nobody who looks loses the screen."""
        self._client = client
        self._vmi = vmi
        self._tell = tell
        self._keeps_other = keeps_other
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._is_over = False
        # Whether a viewer has come, and whether it has left.
        self.came = asyncio.Event()
        self.gone = asyncio.Event()

    async def check(self) -> None:
        """Whether this user has the screen now, before there is a viewer that would only say that it has none.

        Raises:
            TakenError: when somebody else looks at it, and is not to lose it.
            ClientError: what the user is told of another refusal.
        """
        try:
            stream = await self._open_channel(is_first=True)
        except StreamRefused as refused:
            if _is_busy(refused):
                raise TakenError(refused.message) from refused
            # The server is asked for names that are alike.
            raise await asyncio.to_thread(self._client.explain, refused, VMI, self._vmi) from refused
        # One that nobody reads answers no ping, and the server would end it.
        await stream.close()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead one connection to the guest; called by the socket's server."""
        task = asyncio.current_task()
        assert task is not None
        if self._is_over:
            writer.close()
            return
        self._open[task] = writer
        is_first = not self.came.is_set()
        self.came.set()
        try:
            stream = await self._open_channel(is_first=is_first)
            await join_socket(stream, reader, writer, _REST_SECONDS)
        except StreamRefused as refused:
            self._tell(f"a channel of the viewer was refused: {refused}")
        except (OSError, aiohttp.ClientError):
            # An end and no failure: the viewer says that its connection was lost.
            pass
        finally:
            writer.close()
            del self._open[task]
            if not self._open:
                self.gone.set()

    async def _open_channel(self, *, is_first: bool) -> aiohttp.ClientWebSocketResponse:
        """Of a viewer's channels the first one finds out whether another viewer is there."""
        if not (self._keeps_other and is_first):
            return await self._client.open(VMI, self._vmi, SPICE, heartbeat=_PING_SECONDS)
        query = {PRESERVE_SESSION: "true"}
        try:
            return await self._client.open(VMI, self._vmi, SPICE, query, heartbeat=_PING_SECONDS)
        except StreamRefused as refused:
            if not _is_busy(refused):
                raise
        await asyncio.sleep(_LEAVING_SECONDS)
        return await self._client.open(VMI, self._vmi, SPICE, query, heartbeat=_PING_SECONDS)

    async def close(self) -> None:
        """End all of them, and take none any more; it may be called again."""
        self._is_over = True
        for task, writer in self._open.items():
            # A viewer that takes nothing any more must not hold up the end.
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


def _is_busy(refused: StreamRefused) -> bool:
    return refused.message == SPICE_IS_BUSY
