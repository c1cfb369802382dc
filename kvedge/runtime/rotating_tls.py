"""Server-side TLS that can be exchanged while it serves: a renewed certificate, another authority for clients.

Used by the api role's server and by the handler's relay. Open connections keep what they began with.
"""

from __future__ import annotations

import ssl

from kvedge.runtime.certificates import CertificateError, TlsMaterial
from kvedge.runtime.tls_contexts import server_context


class RotatingTls:
    """`acceptor` is handed to the listening socket once; each handshake then uses the newest context."""

    def __init__(self, material: TlsMaterial, client_ca: bytes = b"", *, require_client: bool = False) -> None:
        """Raises CertificateError when something is not what it should be."""
        self._require_client = require_client
        # Whether clients are asked for a certificate at all is settled before OpenSSL lets us exchange anything.
        self._asks_clients = bool(client_ca)
        self._current = server_context(material, client_ca, require_client=require_client)
        self.acceptor = server_context(material, client_ca, require_client=require_client)
        # OpenSSL asks here in each handshake, also when the client names no server.
        self.acceptor.sni_callback = self._switch

    def exchange(self, material: TlsMaterial, client_ca: bytes = b"") -> None:
        """Use these from the next handshake on.

        Raises:
            CertificateError: when something is not what it should be; the old ones stay in use.
        """
        if bool(client_ca) != self._asks_clients:
            raise CertificateError("an authority for clients cannot come or go while the server runs")
        self._current = server_context(material, client_ca, require_client=self._require_client)

    def _switch(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current
