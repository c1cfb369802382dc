"""TLS contexts from PEM that is held in memory, for servers and clients of the roles.

Called by the api role and the handler's relay. Keys pass through a memory file, never through a disk.
"""

from __future__ import annotations

import os
import ssl

from kvedge.runtime.tls.bare_contexts import new_client_context, new_server_context
from kvedge.runtime.tls.certificates import CertificateError, TlsMaterial


def server_context(material: TlsMaterial, client_ca: bytes = b"", *, require_client: bool = False) -> ssl.SSLContext:
    """A server's context.

    Args:
        material: the server's certificate and key; its `ca` is not used.
        client_ca: whose client certificates are believed, PEM; empty: none is asked for.
        require_client: whether a client without one is turned away.

    Raises:
        CertificateError: when something is not what it should be.
    """
    context = new_server_context()
    _load_chain(context, material)
    if client_ca:
        _load_ca(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if require_client else ssl.CERT_OPTIONAL
    elif require_client:
        raise CertificateError("a client certificate is required, but no authority for it is known")
    return context


def client_context(material: TlsMaterial) -> ssl.SSLContext:
    """A client's context: trusts `material.ca` alone and shows its own certificate.

    Raises:
        CertificateError: when something is not what it should be.
    """
    context = new_client_context()
    _load_ca(context, material.ca)
    _load_chain(context, material)
    return context


def peer_common_name(certificate: object) -> str:
    """The common name in what `getpeercert()` gave, or "" when there was no certificate."""
    if not isinstance(certificate, dict):
        return ""
    for attributes in certificate.get("subject", ()):
        for name, value in attributes:
            if name == "commonName":
                return str(value)
    return ""


def peer_hosts(certificate: object) -> frozenset[str]:
    """The DNS names in what `getpeercert()` gave."""
    if not isinstance(certificate, dict):
        return frozenset()
    return frozenset(str(value) for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS")


def _load_ca(context: ssl.SSLContext, ca: bytes) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"the authority's certificate cannot be used: {error}") from error


def _load_chain(context: ssl.SSLContext, material: TlsMaterial) -> None:
    descriptor = os.memfd_create("kvedge-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, material.key + b"\n" + material.certificate)
        # Without a word for it, OpenSSL would ask for a passphrase on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: b"")
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(f"the certificate or its key cannot be used: {error}") from error
    finally:
        os.close(descriptor)
