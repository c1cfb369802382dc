"""Server-side TLS that can be exchanged while it serves: a renewed certificate, another authority for clients.

Used by the api role's server and by the handler's relay. Open connections keep what they began with.

Each connection begins with the newest context. An exchange inside one lasting context (by OpenSSL's SNI callback) would
not do: the keys of session tickets and the cache of sessions stay with the context that a connection began with, and a
resumed session is not asked for its certificate again. A client of an authority that was rotated away came in by it.
"""

from __future__ import annotations

import ssl

from kvedge.runtime.tls.certificates import CertificateError, TlsMaterial
from kvedge.runtime.tls.tls_contexts import server_context


class RotatingTls:
    """`current()` is asked for each connection that is accepted."""

    def __init__(self, material: TlsMaterial, client_ca: bytes = b"", *, require_client: bool = False) -> None:
        """Raises CertificateError when something is not what it should be."""
        self._require_client = require_client
        # The server has said whether its clients show certificates; that does not change by an exchange.
        self._asks_clients = bool(client_ca)
        self._current = server_context(material, client_ca, require_client=require_client)

    def current(self) -> ssl.SSLContext:
        """What the next connection begins with."""
        return self._current

    def exchange(self, material: TlsMaterial, client_ca: bytes = b"") -> None:
        """Use these from the next handshake on; sessions from before are not resumed.

        Raises:
            CertificateError: when something is not what it should be; the old ones stay in use.
        """
        if bool(client_ca) != self._asks_clients:
            raise CertificateError("an authority for clients cannot come or go while the server runs")
        self._current = server_context(material, client_ca, require_client=self._require_client)
