"""Targets and ports as users write them: `vm/web/shop`, `udp/127.0.0.2:8080:80`.

Called by port-forward, ssh and scp, which read them, and by rdp and vsock, which make their own. Pure.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.client.errors import ClientError, UsageError
from kvedge.client.session import check_name
from kvedge.client.subresources import VM, resource_of

_PROTOCOLS: Final = ("tcp", "udp")
_HIGHEST: Final = 65535


class Target(Struct, frozen=True):
    """A VM or VMI; the namespace is empty when none was written, and so is the user."""

    resource: str
    name: str
    namespace: str = ""
    user: str = ""

    @property
    def kind(self) -> str:
        """`vm` or `vmi`."""
        return "vm" if self.resource == VM else "vmi"


class ForwardedPort(Struct, frozen=True):
    """One local port and the guest's that it leads to; without an address the verb's counts."""

    protocol: str
    local: int
    remote: int
    address: str = ""


def parse_target(text: str) -> Target:
    """`type/name[/namespace]`.

    Raises:
        UsageError: for anything else.
    """
    parts = text.split("/")
    if len(parts) < 2:
        raise _usage(f"target must contain type and name separated by '/': vm/{text or 'NAME'}")
    if len(parts) > 3:
        raise _usage(f"target is not valid with more than two '/': {text!r}")
    resource = resource_of(parts[0])
    if len(parts) == 3 and not parts[2]:
        raise _usage("namespace cannot be empty")
    namespace = check_name(parts[2], "namespace") if len(parts) == 3 else ""
    return Target(resource, check_name(parts[1]), namespace)


def parse_user_target(text: str) -> Target:
    """`[user@]type/name[/namespace]`.

    Raises:
        UsageError: for anything else.
    """
    user, at, rest = text.rpartition("@")
    if at and not user:
        raise _usage("expected username before '@'")
    if at and not rest:
        raise _usage("expected target after '@'")
    target = parse_target(rest)
    return Target(target.resource, target.name, target.namespace, user)


def parse_port(text: str) -> ForwardedPort:
    """`[protocol/][[address:]local:]remote`, and as virtctl has it `[protocol/]local[:remote]`.

    Raises:
        UsageError: for anything else.
    """
    protocol, slash, rest = text.partition("/")
    if not slash:
        protocol, rest = "tcp", text
    if protocol.lower() not in _PROTOCOLS:
        raise _usage(f"unknown protocol: {protocol}: use tcp or udp, as in udp/5353:53")
    address, ports = _split_address(rest)
    numbers = [part for part in ports.split(":") if part]
    if not numbers or len(numbers) > 2:
        raise _usage(f"{text!r} is no port: write LOCAL, LOCAL:REMOTE or ADDRESS:LOCAL:REMOTE")
    local = _number(numbers[0], 0)
    # One port alone means the same one on both sides; the guest has no port 0.
    remote = _number(numbers[-1], 1)
    return ForwardedPort(protocol.lower(), local, remote, address)


def _split_address(text: str) -> tuple[str, str]:
    """The address before the ports: in brackets when it is IPv6."""
    if text.startswith("["):
        address, closed, ports = text[1:].partition("]:")
        if not closed:
            raise _usage(f"{text!r} is no port: write [ADDRESS]:LOCAL:REMOTE")
        return address, ports
    if text.count(":") == 2:
        address, _, ports = text.partition(":")
        return address, ports
    return "", text


def _number(text: str, lowest: int) -> int:
    if not (text.isascii() and text.isdigit()) or not lowest <= int(text[:6]) <= _HIGHEST:
        raise _usage(f"{text!r} is no port number: use {lowest} to {_HIGHEST}")
    return int(text)


def _usage(text: str) -> ClientError:
    return UsageError(text)
