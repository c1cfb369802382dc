"""The console on the user's own machine: listens on 127.0.0.1 alone, until it is told to stop.

Called by `kvedge web`. Opens a port; a line for people is handed out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from aiohttp import web
from msgspec.structs import replace

from kvedge.client.errors import HostError
from kvedge.client.session import Session
from kvedge.client.usage.guest_usage import look
from kvedge.kube.errors import Forbidden
from kvedge.resources.kinds import Kind
from kvedge.resources.types.vm import VirtualMachine
from kvedge.web.console_app import ConsoleApp
from kvedge.web.live_rows import LiveRows
from kvedge.web.usage_looks import UsageLooks
from kvedge.web.web_user import WebUser

ADDRESS: Final = "127.0.0.1"
# A browser opens six and its websockets; more come from nobody who means it.
_CONNECTIONS: Final = 128
_KEEP_SECONDS: Final = 30.0
_END_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 20.0


def choose_namespace(session: Session, named: str | None) -> str | None:
    """The namespace whose VMs are listed: the named one, else all where the user may, else the kubeconfig's own.

    Raises:
        KubeError: when the server cannot be asked.
    """
    if named:
        return session.namespace
    kind: Kind = VirtualMachine.KIND
    try:
        session.client.request("GET", f"/apis/{kind.group}/{kind.version}/{kind.plural}", query={"limit": "1"})
    except Forbidden:
        return session.namespace
    return None


async def serve(
    session: Session, namespace: str | None, port: int, tell_link: Callable[[str], None], stopped: asyncio.Event
) -> None:
    """Serve one user until `stopped` is set; `tell_link` gets the link that signs this user in.

    Raises:
        HostError: when the port cannot be listened on.
    """
    loop = asyncio.get_running_loop()
    door = _Door()
    try:
        listening = await loop.create_server(door.let_in, ADDRESS, port)
    except OSError as error:
        raise HostError(
            f"cannot listen on {ADDRESS}:{port}: {error.strerror or error}; name another --port, such as 0"
        ) from error
    own_port = listening.sockets[0].getsockname()[1]
    origins = {f"{name}:{own_port}": f"http://{name}:{own_port}" for name in (ADDRESS, "localhost")}
    # Browsers keep cookies by host without its port: two consoles of one user must not end each other's session.
    console = ConsoleApp(origins, f"kvedge-console-{own_port}")
    rows = LiveRows(session, namespace)
    hurried = replace(session, client=session.client.hurry(_LOOK_SECONDS))
    looks = UsageLooks(lambda: look(hurried), time.monotonic)
    runner = web.AppRunner(
        console.application(), access_log=None, handle_signals=False, keepalive_timeout=_KEEP_SECONDS,
        shutdown_timeout=_END_SECONDS,
    )  # fmt: skip
    await runner.setup()
    rows.start()
    door.server = runner.server
    try:
        secret = console.desk.make_link_secret(WebUser(session, namespace, rows, looks))
        # What follows # is never sent to a server, and so is in no log.
        tell_link(f"http://{ADDRESS}:{own_port}/#sign-in={secret}")
        await stopped.wait()
    finally:
        listening.close()
        await runner.cleanup()
        await asyncio.to_thread(rows.stop)


class _Door:
    """Lets so many connections in, and hangs up on the others."""

    def __init__(self) -> None:
        self.server: web.Server | None = None

    def let_in(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        if self.server is None or len(self.server.connections) >= _CONNECTIONS:
            return _HangUp()
        return self.server()


class _HangUp(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
