"""When the authority of the roles is succeeded by a new one, so that nobody is ever without one to trust.

Used by kube/shared_authority.py. Pure but for random keys. A successor is published long before it signs anything, and
an authority is trusted for as long as anything that it signed may be in use: a client that knows only what was
published before a change, or only what is published after it, always finds a certificate that it trusts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Struct
from msgspec.structs import replace

from kvedge.runtime.tls.certificates import (
    LEAF_LIFE,
    CertificateAuthority,
    CertificateError,
    LeafRequest,
    TlsMaterial,
    ends_at,
)

AUTHORITY_NAME: Final = "kvedge-ca"
# A leaf that is signed on the last day still has its whole life before its authority ends.
SUCCEED_BEFORE: Final = 2 * LEAF_LIFE
# How long a successor is known before it signs: every running role reads the bundle many times in a week, and one
# that does not run reads it when it starts.
OVERLAP: Final = timedelta(days=7)


class Authorities(Struct, frozen=True):
    """The one that signs, the one that will sign from `signs_from` on, and certificates that are still trusted."""

    signing: CertificateAuthority
    successor: CertificateAuthority | None = None
    signs_from: datetime | None = None
    previous: tuple[bytes, ...] = ()

    @property
    def bundle(self) -> bytes:
        """All certificates to trust, in PEM, the signing one first."""
        successor = (self.successor.certificate_pem,) if self.successor is not None else ()
        return b"".join(_lines((self.signing.certificate_pem, *successor, *self.previous)))

    def issue(self, request: LeafRequest, now: datetime) -> TlsMaterial:
        """A new key and certificate, with the bundle to trust."""
        return replace(self.signing.issue(request, now), ca=self.bundle)


def plan_succession(present: Authorities, now: datetime) -> Authorities | None:
    """What should be from now on, or None while everything may stay as it is."""
    planned = replace(present, previous=tuple(pem for pem in present.previous if ends_at(pem) > now))
    end = ends_at(present.signing.certificate_pem)
    if planned.successor is None and end - now < SUCCEED_BEFORE:
        made = CertificateAuthority.create(f"{AUTHORITY_NAME}@{int(now.timestamp())}", now)
        # An authority that ends within the overlap is succeeded while it can still be trusted.
        planned = replace(planned, successor=made, signs_from=min(now + OVERLAP, max(now, end - timedelta(days=1))))
    waits = planned.signs_from is not None and now < planned.signs_from <= now + OVERLAP
    # A time that is further off than any plan sets it was written by a clock that was wrong.
    if planned.successor is not None and not waits:
        retired = (present.signing.certificate_pem,) if end > now else ()
        planned = Authorities(planned.successor, previous=(*planned.previous, *retired))
    return planned if planned != present else None


def split_certificates(bundle: bytes) -> tuple[bytes, ...]:
    """The certificates of a PEM bundle, one by one.

    Raises:
        CertificateError: when it is no PEM.
    """
    if not bundle.strip():
        return ()
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError as error:
        raise CertificateError(f"the certificates are not PEM: {error}") from error
    return tuple(certificate.public_bytes(Encoding.PEM) for certificate in found)


def _lines(certificates: Iterable[bytes]) -> Iterable[bytes]:
    return (pem if pem.endswith(b"\n") else pem + b"\n" for pem in certificates)
