"""One DHCP responder, and one for IPv6, per NIC that the handler has prepared a lease for.

Kept by `nic_leases`; each responder is a thread and its sockets on one bridge of the Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from kvedge.launcher.launcher_errors import BadRequest, Unanswered
from kvedge.network.dhcp.dhcp_plan import DEFAULT_LEASE_SECONDS, DhcpLease, Route
from kvedge.network.dhcp.dhcp_server import DhcpServer
from kvedge.network.dhcp.ipv6_plan import Ipv6Lease
from kvedge.network.dhcp.ipv6_server import Ipv6Server
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


def ipv6_lease_of(interface: GuestInterface) -> Ipv6Lease:
    """What the handler wants a NIC's guest to be told of IPv6.

    Raises:
        BadRequest: when that cannot be told.
    """
    told = interface.ipv6
    try:
        return Ipv6Lease(
            address=told.address,
            server_mac=told.server_mac,
            router=told.router,
            is_default=told.is_default,
            subnet=told.subnet,
            routes=tuple(told.routes),
            dns=tuple(told.dns),
            search=tuple(told.search),
            mtu=told.mtu,
            lease_seconds=told.lease_seconds or DEFAULT_LEASE_SECONDS,
        )
    except ValueError as error:
        raise BadRequest(f"interfaces[{interface.name}].ipv6", str(error)) from error


Lease = TypeVar("Lease", contravariant=True)


class Responder(Protocol[Lease]):
    """A thread that answers the guest on one bridge."""

    def start(self) -> None:
        """Begin to; raises NetworkError."""

    def update(self, lease: Lease) -> None:
        """Go on with another lease."""

    def stop(self) -> None:
        """End it."""


class DhcpResponders:
    """The responders of one domain, by bridge."""

    def __init__(self, on_lease: Callable[[DhcpLease], None]) -> None:
        """`on_lease(lease)` is called in a responder's thread whenever the guest has taken its address."""
        self._on_lease = on_lease
        self._servers: dict[str, Responder[DhcpLease]] = {}
        self._ipv6_servers: dict[str, Responder[Ipv6Lease]] = {}

    def serve(self, interfaces: Iterable[GuestInterface]) -> None:
        """Make exactly these NICs be answered.

        Raises:
            BadRequest: for a lease that cannot be given.
            Unanswered: when a bridge is not there or its port is taken.
        """
        entries = list(interfaces)
        if len(entries) > MOST_INTERFACES:
            raise BadRequest("interfaces", f"more than {MOST_INTERFACES}")
        wanted = {entry.bridge: lease_of(entry) for entry in entries if entry.HasField("dhcp")}
        ipv6_wanted = {entry.bridge: ipv6_lease_of(entry) for entry in entries if entry.HasField("ipv6")}
        _serve(self._servers, wanted, lambda bridge, lease: DhcpServer(bridge, lease, self._on_lease))
        _serve(self._ipv6_servers, ipv6_wanted, Ipv6Server)

    def stop(self) -> None:
        """End them all."""
        _serve(self._servers, {}, lambda bridge, lease: DhcpServer(bridge, lease, self._on_lease))
        _serve(self._ipv6_servers, {}, Ipv6Server)


def _serve(
    present: dict[str, Responder[Lease]], wanted: dict[str, Lease], make: Callable[[str, Lease], Responder[Lease]]
) -> None:
    for bridge in present.keys() - wanted.keys():
        present.pop(bridge).stop()
    for bridge, lease in wanted.items():
        if bridge in present:
            present[bridge].update(lease)
            continue
        server = make(bridge, lease)
        try:
            server.start()
        except NetworkError as error:
            raise Unanswered(str(error)) from error
        present[bridge] = server
