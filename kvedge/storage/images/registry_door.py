"""Where connections to registries may lead, decided for the very address that is connected to.

Called by the registry client. Names are resolved once for each connection, and what was looked at is what is connected
to: a name that means something else a moment later (DNS rebinding) leads nowhere new. Opens sockets.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from kvedge.storage.image_errors import RegistryError
from kvedge.storage.images.registry_pace import Pace
from kvedge.storage.images.registry_stream import PacedAnswer

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_CONNECT_SECONDS: Final = 10.0
_HANDSHAKE_SECONDS: Final = 30.0
# A name with many addresses of which none answers would take minutes.
_MOST_ADDRESSES: Final = 4
# The port does not matter: nothing is sent.
_DISCARD: Final = 9


class Door(Protocol):
    """Opens connections, to where they may lead."""

    @property
    def leads_locally(self) -> bool:
        """Whether the server that was asked for was found in the local network."""

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to one of the host's addresses, if it may be used."""


class RegistryDoor:
    """Opens the connections of one pull.

    Without `own_host` none leads to this host itself: a tenant who may name an image could otherwise ask, by a
    registry's name, which ports are open here. The refusal comes before anything is sent, the same for every port.
    None leads into the local network unless the registry itself is there.
    """

    def __init__(self, registry: str, *, own_host: bool) -> None:
        self._registry = registry
        self._host = urllib.parse.urlsplit(f"//{registry}").hostname
        self._own_host = own_host
        # Whether the registry itself is in the local network: decided with the first connection to it.
        self._local: bool | None = None

    @property
    def leads_locally(self) -> bool:
        """Whether the registry was found in the local network."""
        return bool(self._local)

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to one of the host's addresses, if it may be used.

        Raises:
            RegistryError: when it may not.
            OSError: when nobody answers there.
        """
        found = addresses_of(host, port)
        addresses = [plain_address(item[4][0]) for item in found]
        if self._local is None and host.lower() == self._host:
            # Many a registry of the local network has an address of IPv6 that the world knows as well.
            self._local = any(not address.is_global for address in addresses)
        for address in addresses:
            self._check(host, address)
        return connect_to_first(found)

    def _check(self, host: str, address: IpAddress) -> None:
        if not self._own_host and is_own(address):
            raise RegistryError(
                f"{host}, to which registry {self._registry} leads, is this host itself, from which Pods get no images",
                "kvedge image import FILE --name NAME; or an administrator lists the registry in insecure-registries",
                temporary=False,
            )
        if not self._local and not address.is_global:
            raise RegistryError(f"a registry leads to {host}, which is in the local network", temporary=False)


def is_own(address: IpAddress) -> bool:
    """Whether an address is this host's, or can mean nothing but it or its own links."""
    if address.is_loopback or address.is_unspecified or address.is_link_local or address.is_multicast:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            # Sends nothing: the kernel chooses the source address, which is the target's own only here.
            asked.connect((str(address), _DISCARD))
            return plain_address(asked.getsockname()[0]) == address
    except OSError:
        # No way there: then it is not this host.
        return False


def leads_locally(host: str) -> bool:
    """Whether a name leads into the local network now."""
    try:
        return any(not plain_address(item[4][0]).is_global for item in addresses_of(host, None))
    except OSError:
        return False


def addresses_of(host: str, port: int | None) -> list[Any]:
    """What a name stands for now, as getaddrinfo(3) has it; some addresses are enough.

    Raises:
        OSError: when it stands for nothing.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host[:80]} is no host's name") from error
    return found[:_MOST_ADDRESSES]


def plain_address(text: object) -> IpAddress:
    """An address of getaddrinfo's; of IPv4 when it is one in the clothes of IPv6."""
    address = ipaddress.ip_address(str(text).partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def connect_to_first(found: list[Any]) -> socket.socket:
    """A connection to the first of these addresses that answers.

    Raises:
        OSError: when none does.
    """
    problem = OSError("no address")
    for family, kind, protocol, _, address in found:
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(_CONNECT_SECONDS)
            made.connect(address)
        except OSError as error:
            made.close()
            problem = error
            continue
        made.settimeout(_HANDSHAKE_SECONDS)
        return made
    raise problem


class _Http(http.client.HTTPConnection):
    """Connects through the door, and reads at the pace."""

    def __init__(self, host: str, door: Door | None, pace: Pace, **options: Any) -> None:
        super().__init__(host, **options)
        self._door = door
        self.response_class = PacedAnswer.at(pace)  # type: ignore[assignment]

    def connect(self) -> None:
        """http.client's hook."""
        if self._door is None:
            super().connect()
        else:
            self.sock = self._door.connect(self.host, self.port)


class _Https(http.client.HTTPSConnection):
    """The same with TLS, whose certificate is for the name, not the address."""

    def __init__(self, host: str, door: Door | None, pace: Pace, **options: Any) -> None:
        super().__init__(host, **options)
        self._door = door
        self.response_class = PacedAnswer.at(pace)  # type: ignore[assignment]

    def connect(self) -> None:
        """http.client's hook."""
        if self._door is None:
            super().connect()
            return
        plain = self._door.connect(self.host, self.port)
        try:
            self.sock = self._context.wrap_socket(plain, server_hostname=self.host)  # type: ignore[attr-defined]
        except BaseException:
            plain.close()
            raise


def handlers(door: Door, pace: Pace, context: ssl.SSLContext | None = None) -> list[urllib.request.BaseHandler]:
    """urllib's handlers that open connections through a door; `context` is for TLS, without it the host's is used."""
    options = {"context": context} if context is not None else {}

    class Http(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(_maker(_Http, req, door, pace), req)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(_maker(_Https, req, door, pace), req, **options)

    return [Http(), Https()]


def _maker(
    kind: type[_Http] | type[_Https], request: urllib.request.Request, door: Door, pace: Pace
) -> Callable[..., _Http | _Https]:
    # A site's proxy resolves the names itself, and may be anywhere.
    proxied = request.has_proxy() or getattr(request, "_tunnel_host", None)
    used = None if proxied else door

    def make(host: str, **options: Any) -> _Http | _Https:
        pace.begin()
        return kind(host, used, pace, **options)

    return make
