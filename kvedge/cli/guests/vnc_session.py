"""A guest's screen behind a local port, for one viewer, for as long as that looks.

Called by `kvedge vnc`. Listens on this computer and may start a viewer.
"""

from __future__ import annotations

import json

from kvedge.cli.guests.program_join import LocalProgram, join_program
from kvedge.cli.guests.stream_runs import run_here
from kvedge.cli.guests.vnc_viewers import Viewer
from kvedge.client.session import Session
from kvedge.client.streams.stream_client import StreamClient
from kvedge.client.subresources import VMI


def show(
    session: Session, vmi: str, address: tuple[str, int], viewer: Viewer | None, *, preserve_session: bool
) -> None:
    """Until the viewer or the guest ends it; without a `viewer` of our own, until one that comes does.

    Raises:
        Refused: when there is no screen to be had, or no viewer comes.
    """
    run_here(_show(session, vmi, address, viewer, preserve_session))


async def _show(
    session: Session, vmi: str, address: tuple[str, int], viewer: Viewer | None, preserve_session: bool
) -> None:
    # Written out as virtctl does, always.
    query = {"preserveSession": "true" if preserve_session else "false"}
    async with StreamClient(session) as client:
        stream = await client.open_or_explain(VMI, vmi, "vnc", query)
        try:
            program = LocalProgram("the viewer", viewer.command) if viewer is not None else None
            await join_program(stream, address, program, _tell_port)
        finally:
            await stream.close()


def _tell_port(host: str, port: int) -> None:
    # A caller behind a pipe waits for this line.
    print(json.dumps({"port": port}, separators=(",", ":")), flush=True)
