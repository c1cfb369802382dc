"""Guests that come to this node: which ones are expected, from where, and the way to their launchers' sockets.

The handler's steps say what to expect; the relay asks for the sockets. Opens sockets beneath the Pods' volumes. Whoever
is not expected gets nothing, be it another handler: a certificate says which node its owner is on.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from kvedge.handler.launchers.launcher_socket import NotThere, Unexpected, open_socket, volume_directory
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.handler.migration.crossing_desk import CrossingDesk
from kvedge.resources.migration_channels import CHANNELS, MIGRATION_FOLDER
from kvedge.resources.moves.crossing import SourceWords, TargetWords
from kvedge.runtime.tls.certificates import handler_server_name

# The Pod's volume with its sockets.
PUBLIC: Final = "public"
# QEMU opens one for each of its streams, and libvirt and the disks a few; each holds some buffers here.
MOST_CONNECTIONS: Final = 32
_CONNECT_SECONDS: Final = 5.0
_BUFFER: Final = 1 << 20


class ExpectedGuest(NamedTuple):
    """A guest of the VMI of this namespace and name that comes from a node to a Pod of this one."""

    namespace: str
    name: str
    source_node: str
    pod_uid: str
    # The name in the certificate of another box; empty for another node of the cluster.
    peer: str = ""


class IncomingChannels:
    """All guests that come to one node; expected from worker threads, opened in the relay's event loop."""

    def __init__(self, kubelet: Path, desk: CrossingDesk | None = None) -> None:
        """Without `desk` no guest comes from another box."""
        self._kubelet = kubelet
        self._desk = desk
        self._lock = threading.Lock()
        self._expected: dict[str, ExpectedGuest] = {}
        self._open: dict[str, int] = {}

    def expect(self, uid: str, guest: ExpectedGuest) -> None:
        """Let the migration of this UID in."""
        with self._lock:
            self._expected[uid] = guest

    def forget(self, uid: str) -> None:
        """Let it in no more; connections that are open go on to their ends."""
        with self._lock:
            self._expected.pop(uid, None)

    async def open_channel(
        self, namespace: str, name: str, uid: str, channel: str, peer_hosts: Collection[str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a socket of the launcher that awaits this guest; `release_channel` gives its place back.

        Raises:
            DoorError: 404 for a guest that is not expected, or not by this peer; 503 when its launcher does not listen,
                or has too many connections.
        """
        guest = self._check(namespace, name, uid, channel, peer_hosts)
        self._take_place(uid)
        try:
            return await self._connect(guest, channel)
        except BaseException:
            self.release_channel(uid)
            raise

    def take_words(
        self, key: tuple[str, str], uid: str, peer_hosts: Collection[str], words: SourceWords
    ) -> TargetWords:
        """Another box speaks of its guest. Raises DoorError, 404 for one that is not expected, or not by this peer."""
        if self._desk is None:
            raise DoorError(404, "no guest comes from another box")
        return self._desk.take_words(key, uid, peer_hosts, words)

    def release_channel(self, uid: str) -> None:
        """A connection has ended."""
        with self._lock:
            left = self._open.get(uid, 0) - 1
            if left > 0:
                self._open[uid] = left
            else:
                self._open.pop(uid, None)

    def _check(self, namespace: str, name: str, uid: str, channel: str, peer_hosts: Collection[str]) -> ExpectedGuest:
        with self._lock:
            guest = self._expected.get(uid)
        known = guest is not None and (guest.namespace, guest.name) == (namespace, name) and channel in CHANNELS
        if guest is None or not known or (guest.peer or handler_server_name(guest.source_node)) not in peer_hosts:
            # One answer for all: a stranger does not learn which guests move.
            raise DoorError(404, f"no guest {namespace}/{name} is expected from there by this migration")
        return guest

    def _take_place(self, uid: str) -> None:
        with self._lock:
            if self._open.get(uid, 0) >= MOST_CONNECTIONS:
                raise DoorError(503, f"the migration has {MOST_CONNECTIONS} connections already")
            self._open[uid] = self._open.get(uid, 0) + 1

    async def _connect(self, guest: ExpectedGuest, channel: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = f"the launcher of {guest.namespace}/{guest.name}"
        try:
            descriptor = open_socket(
                volume_directory(self._kubelet, guest.pod_uid, PUBLIC), f"{MIGRATION_FOLDER}/{channel}"
            )
        except NotThere as error:
            raise DoorError(503, f"{where} does not listen on {channel} yet") from error
        except Unexpected as error:
            raise DoorError(500, f"{where} has no {channel}: {error}") from error
        try:
            opening = asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}", limit=_BUFFER)
            return await asyncio.wait_for(opening, _CONNECT_SECONDS)
        except (OSError, TimeoutError) as error:
            raise DoorError(503, f"{where} does not answer on {channel}: {error}") from error
        finally:
            os.close(descriptor)
