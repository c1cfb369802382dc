"""Where an import's connections may lead, decided for the very address that is connected to.

Called by the HTTP sources. A name is resolved once for each connection, and what was looked at is what is connected to:
a name that means something else a moment later (DNS rebinding) leads nowhere new.

- Loopback, link-local addresses (with the clouds' metadata services), multicast and the unspecified address are never
  connected to, not even when a DataVolume's own URL names them.
- A private address, or any other that the Internet does not lead to, is connected to only when the URL of the
  DataVolume itself leads into such a network: a site's own server on 192.168.x works, and may redirect to another one
  of the site. A public server may lead to public addresses only.
- A proxy of the environment resolves names itself and decides by itself; it may be anywhere.

Opens sockets.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from kvedge.storage.images.registry_door import IpAddress, addresses_of, connect_to_first, plain_address
from kvedge.storage.imports.import_errors import ImportFailure

# Metadata services at addresses that are not link-local.
_METADATA: Final = frozenset({ipaddress.ip_address("fd00:ec2::254"), ipaddress.ip_address("100.100.100.200")})
# NAT64: the last 32 bits are an address of IPv4.
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class ImportDoor:
    """Opens the connections of one import."""

    def __init__(self, *, own_host: bool = False) -> None:
        """With `own_host`, loopback is a place like others in the local network: for callers that are no tenants."""
        self._own_host = own_host
        # Whether the URL itself leads into a local network: decided with the first connection.
        self._local: bool | None = None

    @property
    def leads_locally(self) -> bool:
        """Whether the URL itself was found to lead into a local network."""
        return bool(self._local)

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to one of the host's addresses, if it may be used.

        Raises:
            ImportFailure: when it may not.
            OSError: when nobody answers there.
        """
        found = addresses_of(host, port)
        addresses = [_inner_address(plain_address(item[4][0])) for item in found]
        for address in addresses:
            if self._is_never(address):
                raise ImportFailure(
                    f"Unable to connect to http data source: {host} leads to {address}, which is never imported from; "
                    "use a server with an address of its own"
                )
        if self._local is None:
            self._local = any(not address.is_global for address in addresses)
        if not self._local and not all(address.is_global for address in addresses):
            raise ImportFailure(
                f"Unable to connect to http data source: a public server leads to {host}, which is in a private "
                "network; name that server in the URL if it is meant"
            )
        return connect_to_first(found)

    def _is_never(self, address: IpAddress) -> bool:
        if address in _METADATA or address.is_link_local or address.is_multicast or address.is_unspecified:
            return True
        return address.is_loopback and not self._own_host


def _inner_address(address: IpAddress) -> IpAddress:
    """The address of IPv4 that one of IPv6 leads to."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
