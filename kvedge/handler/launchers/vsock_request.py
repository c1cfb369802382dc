"""Which port of a guest's vsock a caller wants.

Read by the relay of what came with a call. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kvedge.resources.relay_protocol import VSOCK_LAST_PORT, VSOCK_PORT, VSOCK_TLS
from kvedge.resources.values.whole_numbers import whole_number


class BadVsockRequest(ValueError):
    """A query that asks for no port; the text is for the caller."""


class VsockRequest(Struct, frozen=True):
    """A port, and whether TLS is spoken there."""

    port: int
    tls: bool = True


def vsock_request(query: Mapping[str, str]) -> VsockRequest:
    """The request of a query; TLS is spoken unless it says no. Raises BadVsockRequest."""
    text, tls = query.get(VSOCK_PORT, ""), query.get(VSOCK_TLS, "true")
    port = whole_number(text, (1, VSOCK_LAST_PORT))
    if port is None:
        raise BadVsockRequest(f"{VSOCK_PORT}: {text[:64]!r} is not between 1 and {VSOCK_LAST_PORT}")
    if tls not in ("true", "false"):
        raise BadVsockRequest(f"{VSOCK_TLS}: {tls[:64]!r} is neither true nor false")
    return VsockRequest(port, tls == "true")
