"""One DHCP responder per NIC that the handler has prepared a lease for.

Kept by `domain_run`; each responder is a thread and a socket on one bridge of the Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kvedge.launcher.launcher_errors import BadRequest, Unanswered
from kvedge.network.dhcp_plan import DEFAULT_LEASE_SECONDS, DhcpLease, Route
from kvedge.network.dhcp_server import DhcpServer
from kvedge.network.errors import NetworkError
from kvedge.rpc.launcher_pb2 import GuestInterface

# A VMI has a handful of NICs; each costs a thread.
MOST_INTERFACES: Final = 32


def lease_of(interface: GuestInterface) -> DhcpLease:
    """The lease that the handler wants for a NIC.

    Raises:
        BadRequest: when it is none.
    """
    dhcp = interface.dhcp
    try:
        return DhcpLease(
            guest_mac=interface.mac,
            address=dhcp.address,
            prefix_length=dhcp.prefix_length,
            server=dhcp.server,
            gateway=dhcp.gateway,
            routes=tuple(Route(route.destination, route.gateway) for route in dhcp.routes),
            dns=tuple(dhcp.dns),
            search=tuple(dhcp.search),
            hostname=dhcp.hostname,
            domain=dhcp.domain,
            mtu=dhcp.mtu,
            ntp=tuple(dhcp.ntp),
            tftp_server=dhcp.tftp_server,
            boot_file=dhcp.boot_file,
            private_options=dict(dhcp.private_options),
            lease_seconds=dhcp.lease_seconds or DEFAULT_LEASE_SECONDS,
        )
    except ValueError as error:
        raise BadRequest(f"interfaces[{interface.name}].dhcp", str(error)) from error


class DhcpResponders:
    """The responders of one domain, by bridge."""

    def __init__(self, on_lease: Callable[[DhcpLease], None]) -> None:
        """`on_lease(lease)` is called in a responder's thread whenever the guest has taken its address."""
        self._on_lease = on_lease
        self._servers: dict[str, DhcpServer] = {}

    def serve(self, interfaces: Iterable[GuestInterface]) -> None:
        """Make exactly these NICs be answered.

        Raises:
            BadRequest: for a lease that cannot be given.
            Unanswered: when a bridge is not there or its port is taken.
        """
        wanted = {entry.bridge: lease_of(entry) for entry in interfaces if entry.HasField("dhcp")}
        if len(wanted) > MOST_INTERFACES:
            raise BadRequest("interfaces", f"more than {MOST_INTERFACES}")
        for bridge in self._servers.keys() - wanted.keys():
            self._servers.pop(bridge).stop()
        for bridge, lease in wanted.items():
            if bridge in self._servers:
                self._servers[bridge].update(lease)
                continue
            server = DhcpServer(bridge, lease, self._on_lease)
            try:
                server.start()
            except NetworkError as error:
                raise Unanswered(str(error)) from error
            self._servers[bridge] = server

    def stop(self) -> None:
        """End them all."""
        while self._servers:
            self._servers.popitem()[1].stop()
