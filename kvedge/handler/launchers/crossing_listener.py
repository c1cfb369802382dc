"""The relay's third place to listen: where guests of other boxes come to, on every address, as long as one is expected.

Kept by `relay_service`. It has the relay's certificate and checks, takes guests alone, and runs in an event loop of its
own. A box that expects no guest of another one has no such port open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kvedge.handler.launchers.relay_core import LauncherDoor, MigrationDoor
from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.resources.moves.crossing import CROSSING_PORT
from kvedge.runtime.serving.https_server import HttpsServer, ServerError
from kvedge.runtime.tls.rotating_tls import RotatingTls

log = logging.getLogger(__name__)

# All addresses of both families; a kernel without IPv6 has those of IPv4 alone.
_EVERYWHERE: Final = ("::", "0.0.0.0")


class CrossingListener:
    """Listens while a guest is expected; used by one thread, read by any."""

    def __init__(
        self,
        door: LauncherDoor,
        migrations: MigrationDoor | None,
        is_wanted: Callable[[], bool],
        port: int = CROSSING_PORT,
    ) -> None:
        """`is_wanted()` says whether a guest is expected now."""
        self._door = door
        self._migrations = migrations
        self._is_wanted = is_wanted
        self._port = port
        self._server: HttpsServer | None = None
        self._trouble = ""

    @property
    def address(self) -> str:
        """Where it listens, as a word for people; empty while it does not."""
        return f"*:{self._server.port}" if self._server is not None else ""

    @property
    def trouble(self) -> str:
        """Why guests of other boxes cannot come; empty when nothing is known."""
        return self._trouble

    def follow(self, tls: RotatingTls) -> None:
        """Listen, or no more; repeated each round."""
        if not self._is_wanted():
            self.stop()
        elif self._server is None:
            self._listen(tls)

    def stop(self) -> None:
        """Guests on their way stay where they were."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        self._trouble = ""

    def failure(self) -> str | None:
        """Why it no longer serves."""
        return None if self._server is None else self._server.failure()

    def _listen(self, tls: RotatingTls) -> None:
        troubles = []
        for host in _EVERYWHERE:
            server = HttpsServer(host, self._port, "crossings")
            try:
                server.start(tls, lambda: RelayServer(self._door, self._migrations).application(only_migrations=True))
            except (ServerError, OSError) as error:
                server.stop()
                troubles.append(str(error))
                continue
            self._server, self._trouble = server, ""
            return
        if troubles[-1] != self._trouble:
            self._trouble = troubles[-1]
            log.warning("no guest of another box can come", extra={"facts": {"why": self._trouble}})
