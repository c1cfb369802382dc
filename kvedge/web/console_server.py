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
from kvedge.runtime.serving.connection_bounds import KNOWS, ConnectionBounds
from kvedge.web.console_app import ConsoleApp
from kvedge.web.live_rows import LiveRows
from kvedge.web.usage_looks import UsageLooks
from kvedge.web.web_user import WebUser

ADDRESS: Final = "127.0.0.1"
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
        listening = await loop.create_server(door.make_entrance, ADDRESS, port)
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
    application = console.application()
    bounds = ConnectionBounds(application.get(KNOWS))
    application.middlewares.insert(0, bounds.watch)
    runner = web.AppRunner(
        application, access_log=None, handle_signals=False, keepalive_timeout=_KEEP_SECONDS,
        shutdown_timeout=_END_SECONDS,
    )  # fmt: skip
    await runner.setup()
    rows.start()
    door.open(bounds, runner.server)
    try:
        secret = console.desk.make_link_secret(WebUser(session, namespace, rows, looks))
        # What follows # is never sent to a server, and so is in no log.
        tell_link(f"http://{ADDRESS}:{own_port}/#sign-in={secret}")
        await stopped.wait()
    finally:
        listening.close()
        bounds.close()
        await runner.cleanup()
        await asyncio.to_thread(rows.stop)


class _Door:
    """Lets connections in within `ConnectionBounds`: strangers on this machine cost the user none."""

    def __init__(self) -> None:
        self._server: web.Server | None = None
        self._bounds: ConnectionBounds | None = None

    def open(self, bounds: ConnectionBounds, server: web.Server | None) -> None:
        """From now on."""
        self._bounds, self._server = bounds, server

    def make_entrance(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        return _Entrance(self)

    def let_in(self, transport: asyncio.Transport) -> None:
        """Hand a connection to the server; before there is one it is hung up on."""
        if self._server is None or self._bounds is None:
            transport.close()
            return
        protocol = self._server()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        self._bounds.take_in(transport, protocol)


class _Entrance(asyncio.Protocol):
    def __init__(self, door: _Door) -> None:
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._door.let_in(transport)
