"""A guest's screen by SPICE for a viewer of the user's own computer: the file that a page saves, and its socket.

Called by `console_app` where the console runs on that computer, as `kvedge web` does. Makes a directory that only this
user may enter, with a socket in it. Its name cannot be guessed, works until nobody has come for a minute, and is gone
once the viewer has left: the file that names it is worth nothing afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from kvedge.client.errors import HostError
from kvedge.client.session import Session
from kvedge.client.streams.spice_channels import SPICE, SpiceChannels, make_private_place
from kvedge.client.streams.stream_client import StreamClient
from kvedge.client.streams.viewer_files import NotOneLine, render_viewer_file
from kvedge.client.subresources import VMI
from kvedge.web.texts.shown_text import showable

log = logging.getLogger(__name__)

_COME_SECONDS: Final = 60.0
_REMEDY: Final = "set XDG_RUNTIME_DIR or TMPDIR to a directory of yours with room"


async def keep_spice_door(session: Session, namespace: str, name: str, ready: asyncio.Future[str]) -> str:
    """Until the viewer or the guest ends it, or none comes: which, for a log. `ready` gets the viewer's file's text.

    Raises:
        ClientError: when the server refuses, with its words, or this computer has no place for the socket.
    """
    here = replace(session, namespace=namespace)
    async with StreamClient(here) as client:
        # What is in the way is told before there is a file.
        await client.check(VMI, name, SPICE)
        channels = SpiceChannels(client, name, lambda line: log.warning("%s", showable(line)))
        try:
            with make_private_place() as directory:
                return await _serve(channels, Path(directory) / "screen", f"{namespace}/{name}", ready)
        except (OSError, NotOneLine) as error:
            raise HostError(f"cannot make a socket for the viewer: {error}; {_REMEDY}") from error
        finally:
            await channels.close()


async def _serve(channels: SpiceChannels, socket: Path, title: str, ready: asyncio.Future[str]) -> str:
    server = await asyncio.start_unix_server(channels.accept, socket)
    async with server:
        try:
            if not ready.done():
                ready.set_result(render_viewer_file(str(socket), title))
            try:
                async with asyncio.timeout(_COME_SECONDS):
                    await channels.came.wait()
            except TimeoutError:
                return "no viewer came"
            await channels.gone.wait()
            return "the viewer left"
        finally:
            # The server's end waits for its connections from Python 3.12.1 on.
            server.close()
            await channels.close()
