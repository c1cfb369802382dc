"""An authority whose certificates are files, for servers under test."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kvedge.runtime.tls.certificate_requests import parse_request, read_requested_names
from kvedge.runtime.tls.certificates import LEAF_LIFE, CertificateAuthority, LeafRequest


@dataclass(frozen=True)
class PairFiles:
    """A certificate and its key in files."""

    cert: Path
    key: Path

    def write_public_key(self) -> Path:
        """The public key alone, in a file beside them."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), password=None)
        path = self.key.with_suffix(".pub")
        kind = serialization.PublicFormat.SubjectPublicKeyInfo
        path.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, kind))
        return path


class FileAuthority:
    """Issues into one directory; the same common name is issued once."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._authority = CertificateAuthority.create(name, datetime.now(UTC))
        self.ca = directory / f"{name}.crt"
        self.ca.write_bytes(self._authority.certificate_pem)

    def write_key(self) -> Path:
        """The authority's own key, for a controller manager that signs with it."""
        path = self.ca.with_suffix(".key")
        path.write_bytes(self._authority.key_pem)
        return path

    def issue(self, common_name: str, groups: list[str] | None = None, hosts: list[str] | None = None) -> PairFiles:
        """A certificate for both sides of a connection."""
        stem = f"{self._name}-{common_name}".replace(":", "-").replace("/", "-")
        pair = PairFiles(self._directory / f"{stem}.crt", self._directory / f"{stem}.key")
        if not pair.cert.exists():
            request = LeafRequest(common_name, groups or [], hosts or [])
            material = self._authority.issue(request, datetime.now(UTC))
            pair.cert.write_bytes(material.certificate)
            pair.key.write_bytes(material.key)
        return pair

    def certify(self, request_pem: bytes, life: timedelta = LEAF_LIFE) -> bytes:
        """A client's certificate for somebody else's request, as a cluster's controller manager signs it."""
        request = parse_request(request_pem)
        names, key = read_requested_names(request), request.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        leaf = LeafRequest(names.common_names[0], names.organizations, server=False, life=life)
        return self._authority.certify(key, leaf, datetime.now(UTC))
