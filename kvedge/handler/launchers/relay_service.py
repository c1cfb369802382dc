"""The relay as a service of the handler role: certificate, server, and the address that the Node tells.

Used by handler_service.py. The certificate comes from files, or is asked of the api role through the cluster; while
that does not run yet the handler does everything else, and the relay follows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kvedge.handler.launchers.crossing_listener import CrossingListener
from kvedge.handler.launchers.migration_listener import MigrationListener
from kvedge.handler.launchers.relay_certificate import RelayCertificate
from kvedge.handler.launchers.relay_core import LauncherDoor, MigrationDoor
from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.told_refusals import ToldRefusals
from kvedge.resources.moves.crossing import CROSSING_PORT
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock, SystemClock
from kvedge.runtime.serving.https_server import HttpsServer, ServerError, split_address
from kvedge.runtime.tls.certificates import CertificateError, TlsFiles, TlsMaterial
from kvedge.runtime.tls.rotating_tls import RotatingTls

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_ROUND_SECONDS: Final = 60.0
# The Node's first heartbeat should tell the address; a handler that waits longer than this reports without.
_PATIENCE_SECONDS: Final = 10.0


class RelayConfig(Struct, frozen=True):
    """`listen` is host:port, port 0 takes a free one; `advertise` the host that the api role connects to."""

    node: str
    listen: str = "127.0.0.1:0"
    advertise: str = ""
    tls: TlsFiles | None = None
    # Where guests of other boxes come to while one is expected; 0 takes a free port.
    crossing_port: int = CROSSING_PORT


class RelayService:
    """The relay of this node."""

    name = "relay"

    def __init__(
        self,
        client: KubeClient,
        config: RelayConfig,
        door: LauncherDoor,
        clock: Clock | None = None,
        migrations: MigrationDoor | None = None,
        network: Callable[[], str] = str,
        crosses: Callable[[], bool] = bool,
    ) -> None:
        """`migrations` lets guests of other nodes in; without it none comes. They come over `network()`, if any.

        `crosses()` says whether a guest of another box is expected.
        """
        self._config = config
        self._door = door
        self._migrations = migrations
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._listener = MigrationListener(door, migrations, network)
        self._crossings = CrossingListener(door, migrations, crosses, config.crossing_port)
        self._certificate = RelayCertificate(client, config.node, clock or SystemClock(), self._stop)
        self._serving = threading.Event()
        self._thread: BackgroundThread | None = None
        self._server: HttpsServer | None = None
        self._tls: RotatingTls | None = None
        self._material: TlsMaterial | None = None
        self._broken: str | None = None
        self._refreshing = threading.Lock()

    @property
    def address(self) -> str:
        """host:port for the Node's annotation; empty while it does not serve."""
        if not self._serving.is_set() or self._server is None:
            return ""
        host, _ = split_address(self._config.listen)
        return join_address(self._config.advertise or host, self._server.port)

    @property
    def migration_address(self) -> str:
        """host:port that guests of other nodes come to; empty while there is none."""
        own = self.address
        return self._listener.address(own) if own else ""

    @property
    def migration_trouble(self) -> str:
        """Why guests of other nodes have no place to come to; empty when nothing is known."""
        return self._listener.trouble

    @property
    def crossing_address(self) -> str:
        """Where guests of other boxes come to; empty while none can."""
        return self._crossings.address

    @property
    def crossing_trouble(self) -> str:
        """Why they have no place to come to; empty when nothing is known."""
        return self._crossings.trouble

    def look_soon(self) -> None:
        """The network for migrations may have changed, or a guest of another box is expected."""
        self._wake.set()

    def start(self) -> None:
        """Begin; returns when it serves, or after some seconds when there is no authority to be had yet.

        Raises:
            ServerError: when the address is none; a port in use is told by :meth:`failure`.
        """
        split_address(self._config.listen)
        self._thread = BackgroundThread("handler-relay", self._run)
        self._thread.start()
        self._serving.wait(_PATIENCE_SECONDS)

    def stop(self) -> None:
        """Send all viewers away and end."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._listener.stop()
        self._crossings.stop()
        if self._server is not None:
            self._server.stop()
            self._server = None

    def failure(self) -> str | None:
        """Why it no longer serves."""
        if self._broken is not None:
            return self._broken
        parts = (self._server, self._listener, self._crossings, self._thread)
        return next((why for part in parts if part is not None and (why := part.failure()) is not None), None)

    def _run(self) -> None:
        pause, told = 0.0, ToldRefusals()
        while not self._waits(pause):
            if self._thread is not None:
                self._thread.heartbeat.beat()
            try:
                self.refresh()
                told.clear()
                pause = _ROUND_SECONDS
            except (KubeError, CertificateError) as error:
                if told.is_news(error):
                    facts = {"node": self._config.node, "reason": str(error)}
                    log.info("relay has no fresh certificate", extra={"facts": facts})
                pause = _RETRY_SECONDS
            except ServerError as error:
                # Waiting does not free the port: failure() ends the role with this cause.
                self._broken = str(error)
                return

    def _waits(self, seconds: float) -> bool:
        """Wait, or be woken; whether it is to end."""
        self._wake.wait(seconds)
        self._wake.clear()
        return self._stop.is_set()

    def refresh(self) -> None:
        """One round: serve, with a certificate and a trust that are fresh; the service's thread does it every minute.

        Raises:
            KubeError: when the API server refuses or does not answer, or does not know the authority yet.
            CertificateError: when the files hold something else, or nobody signs.
        """
        with self._refreshing:
            try:
                self._refresh()
            finally:
                # What guests come by needs nothing new of the API server.
                if self._tls is not None and self._server is not None:
                    host, _ = split_address(self._config.listen)
                    self._listener.follow(self._tls, host, self._server.port)
                    self._crossings.follow(self._tls)

    def _refresh(self) -> None:
        material = self._find_newest()
        if material is self._material:
            return
        if self._tls is not None:
            self._tls.exchange(material, material.ca)
        else:
            tls = RotatingTls(material, material.ca, require_client=True)
            host, port = split_address(self._config.listen)
            self._server = HttpsServer(host, port, self.name)
            self._server.start(tls, lambda: RelayServer(self._door, self._migrations).application())
            self._tls = tls
            self._serving.set()
        # Only now: a round that failed half-way is done again.
        self._material = material

    def _find_newest(self) -> TlsMaterial:
        """The certificate in use, unless its end is near or the authority changes."""
        if self._config.tls is not None:
            # Files are read again each time: somebody else keeps them fresh.
            return self._config.tls.read()
        return self._certificate.keep_fresh(self._material)
