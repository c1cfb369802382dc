"""The embedded API server: `kvedge standalone` and the tests start it, everybody else reaches it by HTTPS.

Owns the data directory's `state/kvedge.db`, `state/pki` and `backup`, one event loop in a thread of its own, and the
listening socket.

It shares its acceptor and its loop with the roles' `HttpsServer`, and differs in what is between them: requests go to
the dispatcher instead of an application's routes, and the gate counts connections by their users.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web
from msgspec import Struct

from kvedge.kube.inner_door import InnerDoor
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.background_tasks import background_task
from kvedge.runtime.open_files import open_files
from kvedge.runtime.serving.connection_acceptor import GOODBYE_SECONDS, ConnectionAcceptor
from kvedge.runtime.serving.loop_thread import LoopThread, Serving, bind_socket, sockets_of, wait_closed
from kvedge.runtime.settings import DEFAULT_SERVICE_CIDR
from kvedge.runtime.tls.bare_contexts import new_server_context
from kvedge.standalone.apiserver.access.identity import caller_named
from kvedge.standalone.apiserver.access.kubeconfig import write_kubeconfig
from kvedge.standalone.apiserver.access.pki import DamagedAuthority, Subject
from kvedge.standalone.apiserver.access.server_certificate import BoxPki, names_of_server
from kvedge.standalone.apiserver.admission.service_ledger import ServiceLedger
from kvedge.standalone.apiserver.audit_log import FOLDER, AuditLog
from kvedge.standalone.apiserver.connection_gate import ConnectionGate, limits_for
from kvedge.standalone.apiserver.inner_doors import InnerDoors
from kvedge.standalone.apiserver.loops.copy_loop import CopyLoop
from kvedge.standalone.apiserver.routes.exec_source import ExecSource
from kvedge.standalone.apiserver.routes.forwarding.forward_source import ForwardSource
from kvedge.standalone.apiserver.routes.log_source import LogSource
from kvedge.standalone.apiserver.routes.usage_source import UsageSource
from kvedge.standalone.apiserver.server_parts import ServerParts
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.apiserver.store.object_store_copies import CopyFailed, StoreCopies
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import ApiError

log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 5.0
# For all of the way down: streams, requests that are under way, and what waits to be written.
_END_SECONDS: Final = 15.0
# Longer than clients keep idle connections, so that it is the client who gives one up, not the server under a request.
_IDLE_SECONDS: Final = 3600.0
_DAY_SECONDS: Final = 86400.0
# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which `ssl` has no name for.
_NO_CHECK_TIME: Final = 0x200000
# After a day on which that failed: the disk is full, mostly.
_HOUR_SECONDS: Final = 3600.0


class ApiServerConfig(Struct, frozen=True):
    """How the server runs. `port` 0 takes any free port; `hosts` are further names that its certificate is for.

    Services get addresses of `service_cidr`, and no node ports that the host's programs have, which `host_ports` tells.
    Where there is a pool for load balancers they may ask for an address.
    """

    data_dir: Path
    bind: str = "127.0.0.1"
    port: int = 6443
    node_name: str = ""
    hosts: Sequence[str] = ()
    service_cidr: str = DEFAULT_SERVICE_CIDR
    has_balancer_pool: bool = False
    host_ports: Callable[[], Collection[tuple[str, int]]] = frozenset


class StartFailed(Exception):
    """The server does not serve; the message says why and what to do."""


class EmbeddedApi:
    """The server. `start()` returns when it serves, `stop()` when everything that was written is on disk."""

    def __init__(
        self,
        config: ApiServerConfig,
        log_source: LogSource | None = None,
        exec_source: ExecSource | None = None,
        usage_source: UsageSource | None = None,
        forward_source: ForwardSource | None = None,
    ) -> None:
        self._config = config
        self._log_source = log_source
        self._exec_source = exec_source
        self._usage_source = usage_source
        self._forward_source = forward_source
        path = config.data_dir / "state" / "kvedge.db"
        self._store = ObjectStore(path)
        self._copies = StoreCopies(path, config.data_dir / "backup")
        self._loop = LoopThread("kvedge-api", "the API server's event loop")
        self._port = config.port
        self._pki: BoxPki | None = None
        self._kubeconfigs: dict[Path, Subject] = {}
        self._doors = InnerDoors()

    @property
    def address(self) -> str:
        """The URL that clients on this box use."""
        return self.address_for_clients("127.0.0.1")

    def address_for_clients(self, own_address: str) -> str:
        """The URL for clients elsewhere, where it listens on all addresses, of which this one is the host's."""
        host = own_address if self._config.bind in ("0.0.0.0", "::", "") else self._config.bind
        return f"https://{join_address(host, self._port)}"

    @property
    def pki(self) -> BoxPki:
        """The box's authorities, once started."""
        assert self._pki is not None, "the server has not been started"
        return self._pki

    def start(self) -> None:
        """Check the store, take the port, serve.

        Raises:
            StoreError: the store cannot be used.
            StartFailed: the port is taken, an authority is damaged, or the server ended while it started.
        """
        try:
            self._pki = BoxPki(self._config.data_dir / "state" / "pki")
        except DamagedAuthority as error:
            raise StartFailed(str(error)) from error
        objects, _ = self._copies.open_store(self._store)
        self._copy_before_an_upgrade()
        try:
            listening = bind_socket(self._config.bind, self._config.port)
        except OSError as error:
            self._store.stop()
            raise StartFailed(
                f"cannot listen on {self._config.bind} port {self._config.port}: {error.strerror}."
                " Stop what uses it, or choose another address or port."
            ) from error
        self._port = listening.getsockname()[1]

        def clean_up() -> None:
            listening.close()
            self._store.stop()

        try:
            self._loop.start(partial(self._serve, objects, listening), at_end=clean_up)
        except (ApiError, OSError) as error:
            raise StartFailed(f"the API cannot be served: {error}") from error
        log.info("the API is served at %s", self.address)

    def _copy_before_an_upgrade(self) -> None:
        try:
            self._copies.make_before_an_upgrade(self._store)
        except CopyFailed as error:
            # Serving comes first; the loop tries again, and tells the Node.
            log.error("%s", error)

    def stop(self) -> None:
        """End all connections, commit what was written, close the store."""
        if not self._loop.stop(_END_SECONDS):
            # Nothing that was answered is lost: it is on disk. The rest ends with the process.
            log.error("the API does not end: its event loop is stuck")

    def failure(self) -> str | None:
        """Why it no longer serves, or None while it does."""
        return (self._loop.failure() or self._store.failure()) if self._loop.is_started else None

    def write_kubeconfig(self, path: Path, user: str, groups: Sequence[str]) -> None:
        """Write a kubeconfig for this user, readable by its owner alone."""
        self._kubeconfigs[path] = Subject(user, tuple(groups))
        self._write_kubeconfig(path)

    def door(self, user: str, groups: Sequence[str]) -> InnerDoor:
        """The way in for a part of this process, which is taken for that user.

        Raises:
            Unauthorized: the name cannot be a user's.
        """
        return InnerDoor(self.address, partial(self._doors.open, caller_named(user, groups)))

    def _write_kubeconfig(self, path: Path) -> None:
        authority, subject = self.pki.servers.certificate_pem, self._kubeconfigs[path]
        write_kubeconfig(path, self.address, authority, self.pki.clients, subject)

    async def _serve(self, objects: list[Stored], listening: socket.socket, serving: Serving) -> None:
        hub = ObjectHub(self._store, objects)
        config = self._config
        services = ServiceLedger(
            hub.cache, config.service_cidr, listening=config.host_ports, has_pool=config.has_balancer_pool
        )
        audit = AuditLog(config.data_dir / "state" / FOLDER)
        audit.start()
        sources = (self._log_source, self._exec_source, self._usage_source, self._forward_source)
        parts = ServerParts(hub, self.pki, self.address, services, audit, *sources)
        await parts.prepare()
        copying = CopyLoop(self._copies, self._store, hub, parts.actor, self._config.node_name, parts.now)
        copying.start()
        server = ConnectionGate(
            parts.dispatcher.handle, parts.dispatcher.lasts, limits_for(open_files()), _IDLE_SECONDS
        )
        tls = self._tls()
        acceptor = ConnectionAcceptor(listening, lambda: tls, server, server.give_one_up)
        acceptor.start()
        self._doors.start(server)
        renewing = self._start_renewal(tls, parts)
        try:
            await serving()
        finally:
            renewing.cancel()
            copying.stop()
            self._doors.stop()
            await acceptor.stop()
            await parts.stop()
            await _end_connections(server)
            server.close()
            parts.close()
            audit.stop()

    def _renew(self) -> None:
        """Make the server a new certificate when the present one is old or for other names."""
        names = names_of_server(self._config.bind, [*self._config.hosts, self._config.node_name])
        self.pki.renew_server(names, datetime.now(UTC))

    def _start_renewal(self, tls: ssl.SSLContext, parts: ServerParts) -> asyncio.Task[None]:
        return background_task("certificate renewal", partial(self._renew_daily, tls, parts))

    async def _renew_daily(self, tls: ssl.SSLContext, parts: ServerParts) -> None:
        """A box may run for years without a restart; new connections are shown the new certificates."""
        pause = _DAY_SECONDS
        while True:
            await asyncio.sleep(pause)
            try:
                self._renew()
                # Also what was written a round ago and could not be read then.
                tls.load_cert_chain(self.pki.certificate_file, self.pki.key_file)
                for path in tuple(self._kubeconfigs):
                    self._write_kubeconfig(path)
                parts.renew()
                pause = _DAY_SECONDS
            except (OSError, ValueError) as error:
                # ValueError: a file holds something else.
                log.warning("certificates not renewed, to be tried again in an hour: %s", error)
                pause = _HOUR_SECONDS

    def _tls(self) -> ssl.SSLContext:
        self._renew()
        context = new_server_context()
        context.load_cert_chain(self.pki.certificate_file, self.pki.key_file)
        context.load_verify_locations(self.pki.clients.certificate_file)
        # Optional, so that a client without a certificate is answered 401 instead of a broken connection.
        context.verify_mode = ssl.CERT_OPTIONAL
        # Likewise one whose certificate has ended, which is seen at each request: asyncio hangs up without a word.
        context.verify_flags |= _NO_CHECK_TIME
        return context


async def _end_connections(server: web.Server) -> None:
    """Let requests finish, then close every connection and wait until its socket is closed."""
    sockets = sockets_of(server)
    server.pre_shutdown()
    await server.shutdown(_STOP_SECONDS)
    await wait_closed(sockets, 2 * GOODBYE_SECONDS)
