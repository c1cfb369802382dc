"""A client's TLS context that is made anew when its certificate is.

Held by the api role's clients: of relays and of uploads' workers. Not for several threads.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from kvedge.runtime.tls.certificates import TlsMaterial
from kvedge.runtime.tls.tls_contexts import client_context


class ClientTls:
    """`current()` is asked for each connection that is opened."""

    def __init__(self, material: Callable[[], TlsMaterial]) -> None:
        """`material` gives our newest certificate, the same object as long as it is the same."""
        self._material = material
        self._made: tuple[TlsMaterial, ssl.SSLContext] | None = None

    def current(self) -> ssl.SSLContext:
        """What the next connection begins with.

        Raises:
            CertificateError: when the certificate cannot be used.
        """
        material = self._material()
        if self._made is None or self._made[0] is not material:
            self._made = (material, client_context(material))
        return self._made[1]
