"""X.509 of kvedge's own: an authority, leaf certificates, and when one is due for renewal.

Used by the api role and by the handler's relay, each through a TlsMaterial, and by the authorities of one box, which
keep theirs in files. Pure but for random keys: each caller hands in the time and keeps the results. A role is named in
the common name of its certificate and is checked there: having a certificate of the authority alone opens nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

# A box without a battery-backed clock boots in the past: its own certificates must be valid then, too.
NOT_BEFORE: Final = datetime(2020, 1, 1, tzinfo=UTC)
CA_LIFE: Final = timedelta(days=3650)
# Long enough for a box that is switched off for a season, short enough that a stolen key ends.
LEAF_LIFE: Final = timedelta(days=365)

# The common names by which roles know each other.
API_NAME: Final = "kvedge-api"
HANDLER_NAME: Final = "kvedge-handler"
# A handler that sends a guest to another node's handler: a certificate of its own, good for that alone.
MIGRATION_NAME: Final = "kvedge-migration"


def handler_server_name(node: str) -> str:
    """The name that the certificate of a node's relay is for, and that the api role asks for when it connects."""
    return f"{node}.handler.kvedge.io"


class CertificateError(Exception):
    """A certificate or key cannot be used; the text says which and why."""


class TlsMaterial(Struct, frozen=True):
    """What one end of a connection needs, as PEM: whom it trusts, its own certificate and key."""

    ca: bytes
    certificate: bytes
    key: bytes


class TlsFiles(Struct, frozen=True):
    """The same in files that somebody else keeps fresh."""

    ca: Path
    cert: Path
    key: Path

    def read(self) -> TlsMaterial:
        """What the files hold now.

        Raises:
            CertificateError: when one cannot be read.
        """
        try:
            return TlsMaterial(self.ca.read_bytes(), self.cert.read_bytes(), self.key.read_bytes())
        except OSError as error:
            raise CertificateError(f"{error.filename}: cannot be read: {error.strerror}") from error


class LeafRequest(Struct, frozen=True):
    """What a leaf certificate should say; hosts are DNS names or addresses."""

    common_name: str
    organizations: Sequence[str] = ()
    hosts: Sequence[str] = ()
    server: bool = True
    client: bool = True
    life: timedelta = LEAF_LIFE


class CertificateAuthority:
    """A certificate authority held in memory."""

    def __init__(self, certificate_pem: bytes, key_pem: bytes) -> None:
        """Take up an authority that was made before.

        Raises:
            CertificateError: when the two are not PEM, or no authority's.
        """
        try:
            self._certificate = x509.load_pem_x509_certificate(certificate_pem)
            key = serialization.load_pem_private_key(key_pem, password=None)
        except (ValueError, TypeError) as error:
            raise CertificateError(f"the authority's certificate or key is not PEM: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateError("the authority's key is not an elliptic curve key")
        if key.public_key() != self._certificate.public_key():
            raise CertificateError("the authority's key does not belong to its certificate")
        self._key = key
        self.certificate_pem = certificate_pem
        self.key_pem = key_pem

    @classmethod
    def create(cls, common_name: str, now: datetime, life: timedelta = CA_LIFE) -> CertificateAuthority:
        """A new authority, valid for ten years unless told otherwise."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name, ())
        certificate = (
            _builder(name, name, key.public_key(), now + life)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(True, False, False, False, False, True, True, False, False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate.public_bytes(serialization.Encoding.PEM), key_pem(key))

    def issue(self, request: LeafRequest, now: datetime) -> TlsMaterial:
        """A new key with a certificate of this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        return TlsMaterial(self.certificate_pem, self.certify(key.public_key(), request, now), key_pem(key))

    def certify(
        self, key: CertificatePublicKeyTypes, request: LeafRequest, now: datetime, subject: x509.Name | None = None
    ) -> bytes:
        """A certificate of this authority for somebody else's key, as PEM; `subject` counts before the request's."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] if request.server else []
        usages += [ExtendedKeyUsageOID.CLIENT_AUTH] if request.client else []
        # Nothing outlives its authority.
        end = min(now + request.life, self._certificate.not_valid_after_utc)
        owner = subject or _name(request.common_name, request.organizations)
        builder = (
            _builder(owner, self._certificate.subject, key, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(True, False, False, False, False, False, False, False, False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if request.hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in request.hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def has_issued(self, certificate_pem: bytes) -> bool:
        """Whether this authority signed a certificate."""
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (InvalidSignature, ValueError):
            return False
        return True


def renewal_due(certificate_pem: bytes, now: datetime) -> bool:
    """Whether less than a third of a leaf certificate's life is left.

    Raises:
        CertificateError: when it is no PEM.
    """
    return ends_at(certificate_pem) - now < life_of(certificate_pem) / 3


def life_of(certificate_pem: bytes) -> timedelta:
    """How long a leaf certificate is good in all; LEAF_LIFE at most, as those of ours begin far in the past.

    Raises:
        CertificateError: when it is no PEM.
    """
    certificate = _parse(certificate_pem)
    return min(LEAF_LIFE, certificate.not_valid_after_utc - certificate.not_valid_before_utc)


def ends_at(certificate_pem: bytes) -> datetime:
    """When a certificate ends.

    Raises:
        CertificateError: when it is no PEM.
    """
    return _parse(certificate_pem).not_valid_after_utc


def hosts_of(certificate_pem: bytes) -> frozenset[str]:
    """The DNS names and addresses that a server's certificate is for.

    Raises:
        CertificateError: when it is no PEM, or names none.
    """
    try:
        names = _parse(certificate_pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise CertificateError("the certificate names no host") from error
    return frozenset(str(name.value) for name in names)


def _parse(certificate_pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate_pem)
    except ValueError as error:
        raise CertificateError(f"the certificate is not PEM: {error}") from error


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOT_BEFORE)
        .not_valid_after(max(end, NOT_BEFORE + timedelta(days=1)))
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
