"""The certificate of a client, and what to tell its user once it has ended.

Used by connection_settings, which keeps it beside the TLS context (that does not give it back), and by live_connection
after a refusal. Pure. X.509 is imported only then: most clients are never refused.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"
_NODE: Final = "system:node:"
_HANDLER: Final = "kvedge:handler:"
_OURS: Final = "kvedge:"


class ShownCertificate(Struct, frozen=True):
    """A client's certificate as PEM, without its key, and the file that it is in."""

    pem: bytes
    file: str

    def complaint(self, now: datetime) -> str:
        """That it has ended, and what to do; empty while it is good."""
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            certificate = x509.load_pem_x509_certificate(self.pem)
        except ValueError:
            return ""
        end = certificate.not_valid_after_utc
        if end > now:
            return ""
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        user = str(names[0].value) if names else "a user without name"
        return f"the certificate of {user} in {self.file} ended {end:%Y-%m-%d %H:%M:%S} UTC; {_remedy(user)}"


def end_of(pem: bytes) -> datetime | None:
    """When a certificate ends; None when it cannot be read."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:
        return None


def leaf_of(pem: bytes) -> bytes:
    """The first certificate in a file, which may hold the key, too; empty when there is none."""
    begin = pem.find(_BEGIN)
    end = pem.find(_END, begin)
    return b"" if begin < 0 or end < 0 else pem[begin : end + len(_END)] + b"\n"


def _remedy(user: str) -> str:
    if user.startswith(_NODE):
        return "this node's Kubernetes renews it: does it run? k3s renews it when it is restarted"
    if user.startswith(_HANDLER):
        node = user.removeprefix(_HANDLER)
        return f"run `kvedge user renew` on a server; for an agent, `kvedge user role handler --node {node}` there"
    if user.startswith(_OURS):
        return "run `kvedge user renew` or `kvedge install` on this server"
    return "get another one from whoever made it; k3s renews its administrator's when it is restarted"
