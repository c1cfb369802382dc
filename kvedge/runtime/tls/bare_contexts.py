"""What the TLS contexts of kvedge's own servers and clients have in common; each loads its certificates itself.

Called by `tls_contexts` for the roles, by the embedded API, and by workers that fill claims. Those are small processes,
so this imports the standard library only. Clients of foreign servers (registries, webhooks, API servers) take Python's
defaults instead, with the host's authorities.
"""

from __future__ import annotations

import ssl
from typing import Final

# None of our servers speaks HTTP/2 yet. A client that offers both is told at once.
_PROTOCOLS: Final = ("http/1.1",)


def new_server_context() -> ssl.SSLContext:
    """A server's context, which asks clients for no certificate."""
    return _new_context(ssl.PROTOCOL_TLS_SERVER)


def new_client_context() -> ssl.SSLContext:
    """A client's context: it demands a server's certificate with the right name, and believes no authority."""
    return _new_context(ssl.PROTOCOL_TLS_CLIENT)


def new_context_for_anybody() -> ssl.SSLContext:
    """A client's context for servers whose certificate says nothing, as the way to them tells who they are."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _new_context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    # As Kubernetes' servers have it.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(_PROTOCOLS))
    return context
