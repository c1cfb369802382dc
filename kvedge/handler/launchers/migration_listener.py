"""The relay's second place to listen: on the network that the KubeVirt object names for migrations.

Kept by `relay_service`. It has the relay's port, certificate and checks, takes guests alone, and runs in an event loop
of its own, so that a guest that comes holds up no console. Without such a network guests come to the relay itself.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable
from typing import Final

from kvedge.handler.launchers.relay_core import LauncherDoor, MigrationDoor
from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.network.errors import NetworkError
from kvedge.network.links import Links
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.serving.https_server import HttpsServer, ServerError
from kvedge.runtime.tls.rotating_tls import RotatingTls

log = logging.getLogger(__name__)

_EVERYWHERE: Final = ("", "0.0.0.0", "::")


def choose_address(network: str, addresses: Iterable[str], present: str = "") -> str:
    """The node's own address in the network, in CIDR notation; empty when it has none.

    The present one stays as long as the node has it; else the lowest, so that it is the same after a restart.

    >>> choose_address("10.5.0.0/24", ["192.168.1.7", "10.5.0.9", "10.5.0.30"])
    '10.5.0.9'
    """
    wanted = ipaddress.ip_network(network, strict=False)
    found = sorted(
        address
        for text in set(addresses)
        if (address := ipaddress.ip_address(text)).version == wanted.version and address in wanted
    )
    names = [str(address) for address in found]
    return present if present in names else names[0] if names else ""


def list_own_addresses() -> list[str]:
    """The node's addresses that others can reach it by.

    Raises:
        NetworkError: when the kernel does not list them.
    """
    with Links() as links:
        found = [address.address for address in links.list_addresses() if not address.duplicate]
    return [text for text in found if not ipaddress.ip_address(text).is_link_local]


class MigrationListener:
    """Listens where guests are to come to; used by one thread, read by any."""

    def __init__(
        self,
        door: LauncherDoor,
        migrations: MigrationDoor | None,
        network: Callable[[], str],
        own_addresses: Callable[[], Iterable[str]] = list_own_addresses,
    ) -> None:
        """`network()` is the network as it is now, in CIDR notation; empty for none."""
        self._door = door
        self._migrations = migrations
        self._network = network
        self._own_addresses = own_addresses
        self._server: HttpsServer | None = None
        self._host = ""
        self._port = 0
        # What others connect to, and for which network; or why there is nothing.
        self._address, self._for, self._trouble = "", "", ""

    def address(self, relay: str) -> str:
        """Where guests are to come to; `relay` is the relay's own address. Empty while there is no such place."""
        wanted = self._network()
        if not wanted:
            return relay
        return self._address if self._for == wanted else ""

    @property
    def trouble(self) -> str:
        """Why guests have no place to come to; empty when nothing is known."""
        return self._trouble

    def follow(self, tls: RotatingTls, host: str, port: int) -> None:
        """Listen where it is wanted now; `host` and `port` are where the relay itself listens. Repeated each round."""
        wanted = self._network()
        try:
            own = self._find_host(wanted)
            self._listen(tls, own, port, covered=host in _EVERYWHERE or own == host)
        except (NetworkError, ServerError) as error:
            self._fail(wanted, f"network {wanted} for migrations: {error}")
            return
        if wanted and not own:
            self._fail(wanted, f"this node has no address in {wanted}, the network for migrations")
            return
        self._address, self._for, self._trouble = join_address(own, port) if own else "", wanted, ""

    def stop(self) -> None:
        """Guests on their way stay where they were."""
        self._address = self._for = ""
        self._close()

    def failure(self) -> str | None:
        """Why it no longer serves."""
        return None if self._server is None else self._server.failure()

    def _find_host(self, wanted: str) -> str:
        return choose_address(wanted, self._own_addresses(), self._host) if wanted else ""

    def _listen(self, tls: RotatingTls, host: str, port: int, *, covered: bool) -> None:
        if self._server is not None and (covered or (host, port) != (self._host, self._port)):
            self._close()
        if self._server is None and host and not covered:
            server = HttpsServer(host, port, "migrations")
            try:
                server.start(tls, lambda: RelayServer(self._door, self._migrations).application(only_migrations=True))
            except ServerError:
                server.stop()
                raise
            self._server = server
        self._host, self._port = host, port

    def _fail(self, wanted: str, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("no guest can come to this node", extra={"facts": {"why": trouble}})
        self._address, self._for, self._trouble = "", wanted, trouble

    def _close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None
        self._host, self._port = "", 0
