"""Guests that leave this node: sockets in the Pod that they leave, each connection to which goes to the other node.

Opened and closed by the handler's steps. Makes sockets beneath Pods' volumes, and connects to the other node's relay
over mutual TLS. Runs in an event loop of its own thread: a migration moves more bytes than all consoles together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from msgspec import Struct, field

from kvedge.handler.launchers.launcher_socket import NotThere, Unexpected, volume_directory
from kvedge.handler.migration.incoming_channels import MOST_CONNECTIONS, PUBLIC
from kvedge.resources.migration_channels import CHANNELS, MIGRATION_FOLDER
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.relay_protocol import REASON_HEADER, migration_path
from kvedge.runtime.background_tasks import passing_task
from kvedge.runtime.serving.stream_pump import GOING_DOWN, ConnectionSource, Farewell, pump
from kvedge.runtime.serving.websocket_viewer import LARGEST_MESSAGE, SUBPROTOCOL
from kvedge.runtime.tls.certificates import handler_server_name

log = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 3.0
_BUFFER: Final = 1 << 20


class LeavingGuest(NamedTuple):
    """A guest that leaves a Pod of this node for the node whose relay is at `address`."""

    namespace: str
    name: str
    pod_uid: str
    target_node: str
    address: str
    # By what another box is called; None within the cluster.
    tls: ssl.SSLContext | None = None


class _Opened(Struct):
    guest: LeavingGuest
    servers: list[asyncio.Server] = field(default_factory=list)
    connections: set[asyncio.Task[None]] = field(default_factory=set)
    # By channel: whose turn it is to be connected.
    turns: dict[str, asyncio.Lock] = field(default_factory=lambda: {channel: asyncio.Lock() for channel in CHANNELS})
    # Set when all of them are to end.
    closing: asyncio.Future[Farewell] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class OutgoingChannels:
    """All guests that leave one node; made and used in one event loop."""

    def __init__(
        self,
        kubelet: Path,
        tls: Callable[[], ssl.SSLContext],
        owner: tuple[int, int] = (LAUNCHER_UID, LAUNCHER_GID),
    ) -> None:
        """`tls()` is a context with this handler's certificate as it is now; `owner` is user and group of launchers."""
        self._kubelet = kubelet
        self._tls = tls
        self._owner = owner
        self._opened: dict[str, _Opened] = {}

    async def open(self, uid: str, guest: LeavingGuest) -> None:
        """Listen for the migration of this UID in the guest's Pod; again for another address or Pod, it starts anew.

        Raises:
            NotThere: when the Pod has no such volume.
            Unexpected: when something else lies in the sockets' place.
            OSError: when a socket cannot be made.
        """
        present = self._opened.get(uid)
        if present is not None and present.guest == guest:
            return
        await self.close(uid)
        opened = _Opened(guest)
        try:
            volume = volume_directory(self._kubelet, guest.pod_uid, PUBLIC)
            with _hold_folder(volume, self._owner) as folder:
                for channel in CHANNELS:
                    opened.servers.append(await self._listen(uid, opened, folder, channel))
        except BaseException:
            await _close(opened)
            raise
        self._opened[uid] = opened

    async def close(self, uid: str) -> None:
        """Listen no more, and end what is open: libvirt then lets the guest go on where it is."""
        opened = self._opened.pop(uid, None)
        if opened is not None:
            await _close(opened)

    async def close_all(self) -> None:
        """As the handler ends."""
        for uid in list(self._opened):
            await self.close(uid)

    async def _listen(self, uid: str, opened: _Opened, folder: int, channel: str) -> asyncio.Server:
        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(opened.connections) >= MOST_CONNECTIONS or opened.closing.done():
                writer.transport.abort()
                return
            source = ConnectionSource(reader, writer)
            task = passing_task(f"migration {uid} {channel}", lambda: self._serve(uid, opened, channel, source))
            opened.connections.add(task)
            task.add_done_callback(opened.connections.discard)

        with contextlib.suppress(FileNotFoundError):
            os.unlink(channel, dir_fd=folder)
        server = await asyncio.start_unix_server(take, f"/proc/self/fd/{folder}/{channel}", limit=_BUFFER)
        os.chown(channel, *self._owner, dir_fd=folder, follow_symlinks=False)
        return server

    async def _serve(self, uid: str, opened: _Opened, channel: str, source: ConnectionSource) -> None:
        guest = opened.guest
        facts = {"vmi": f"{guest.namespace}/{guest.name}", "channel": channel, "node": guest.target_node}
        try:
            async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as session:
                # In the order in which they came here: QEMU takes the first one to arrive for the guest's state, and
                # the others for its pages.
                async with opened.turns[channel]:
                    joined = await asyncio.wait_for(self._connect(session, uid, guest, channel), _CONNECT_SECONDS)
                relay = _Relay(joined)
                farewell = await pump(relay, source, opened.closing)
            log.info("a migration's connection has ended", extra={"facts": facts | {"reason": farewell.reason}})
        except aiohttp.WSServerHandshakeError as error:
            said = error.headers.get(REASON_HEADER, "") if error.headers is not None else ""
            log.warning("the other node refuses a guest", extra={"facts": facts | {"reason": said or error.status}})
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("the other node is not reached", extra={"facts": facts | {"reason": str(error)}})
        finally:
            await source.close()

    async def _connect(
        self, session: aiohttp.ClientSession, uid: str, guest: LeavingGuest, channel: str
    ) -> aiohttp.ClientWebSocketResponse:
        return await session.ws_connect(
            f"https://{guest.address}{migration_path(guest.namespace, guest.name, uid, channel)}",
            protocols=(SUBPROTOCOL,),
            max_msg_size=LARGEST_MESSAGE,
            autoping=False,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
            ssl=guest.tls or self._tls(),
            server_hostname=handler_server_name(guest.target_node),
        )


class _Relay:
    """The websocket to the other node's relay, as the viewer of this end."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        """Binary data; a ping is answered and a pong counts."""
        while True:
            message = await self._socket.receive()
            match message.type:
                case aiohttp.WSMsgType.BINARY:
                    data: bytes = message.data
                    return data
                case aiohttp.WSMsgType.PING:
                    await self._socket.pong(message.data)
                    return b""
                case aiohttp.WSMsgType.PONG:
                    return b""
                case aiohttp.WSMsgType.TEXT:
                    continue
                case _:
                    return None

    async def send(self, data: bytes) -> None:
        """Send, and wait while the other node is slow."""
        await self._socket.send_bytes(data)

    async def ping(self) -> None:
        """Ask for a sign of life."""
        await self._socket.ping()

    async def close(self, farewell: Farewell) -> None:
        """End it."""
        await self._socket.close(code=farewell.code, message=farewell.reason.encode())


async def _close(opened: _Opened) -> None:
    for server in opened.servers:
        server.close()
    if not opened.closing.done():
        opened.closing.set_result(GOING_DOWN)
    if opened.connections:
        await asyncio.wait(opened.connections, timeout=_CLOSE_SECONDS)
    for task in list(opened.connections):
        task.cancel()


@contextlib.contextmanager
def _hold_folder(volume: Path, user: tuple[int, int]) -> Iterator[int]:
    """The sockets' folder in a Pod's volume, made when it is missing, and the launcher's; no link is followed.

    A kubelet's volume is root's, and open to the Pod's group: its owner says nothing of who the launcher is.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        above = os.open(volume, flags)
    except FileNotFoundError as error:
        raise NotThere(str(volume)) from error
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(MIGRATION_FOLDER, 0o700, dir_fd=above)
        try:
            folder = os.open(MIGRATION_FOLDER, flags, dir_fd=above)
        except OSError as error:
            raise Unexpected(f"{volume}/{MIGRATION_FOLDER}", "no directory") from error
    finally:
        os.close(above)
    try:
        os.fchown(folder, *user)
        yield folder
    finally:
        os.close(folder)
