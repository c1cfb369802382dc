"""The authorities of one box, kept in files, and the certificates of its server and its clients.

Used by the embedded API at its start, and by `kvedge standalone` for whoever serves webhooks or an aggregated API.
Touches only the directory it is given; private keys are readable by their owner alone, and every file appears whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct

from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import write_durably
from kvedge.runtime.tls.certificates import NOT_BEFORE, CertificateAuthority, LeafRequest, key_pem

# Everybody who was ever given a kubeconfig trusts the authority, so it is made once, for as long as a box may live.
_CA_LIFE = timedelta(days=10950)
_LEAF_LIFE = timedelta(days=1095)


class KeyPair(Struct, frozen=True):
    """A certificate and its private key, as PEM texts."""

    certificate: bytes
    key: bytes


class Subject(Struct, frozen=True):
    """The subject of a client certificate: CN is the user, each O a group."""

    user: str
    groups: tuple[str, ...] = ()


class DamagedAuthority(Exception):
    """A file of an authority that others trust cannot be read; the message says what to do."""


class Authority:
    """A certificate authority kept in `<directory>/<name>.crt` and `.key`; made when it is missing."""

    def __init__(self, directory: Path, name: str, *, is_renewable: bool = False) -> None:
        """With `is_renewable` a damaged one is made anew: nobody was told to trust it for long.

        Raises:
            DamagedAuthority: for one that others trust.
            OSError: it cannot be written.
        """
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._certificate_file = directory / f"{name}.crt"
        self._key_file = directory / f"{name}.key"
        if not self._certificate_file.exists() or not self._key_file.exists():
            self._make(f"kvedge-{name}")
        try:
            self._load()
        except BadKeyFile as error:
            if not is_renewable:
                raise DamagedAuthority(
                    f"{error}. Everybody who was ever given a kubeconfig trusts this authority, so it is not made anew:"
                    f" put {directory} back from a backup (`kvedge state restore FILE`). Without a backup move"
                    f" {directory} away, start kvedge, and give out all kubeconfigs again."
                ) from error
            put_pair_aside(self._certificate_file, self._key_file, str(error))
            self._make(f"kvedge-{name}")
            self._load()

    def _load(self) -> None:
        self.certificate_pem, key = load_pair(self._certificate_file, self._key_file)
        self._authority = CertificateAuthority(self.certificate_pem, key_pem(key))

    @property
    def certificate_file(self) -> Path:
        return self._certificate_file

    def issue_client(self, subject: Subject) -> KeyPair:
        """A certificate for a client."""
        return self._issue(LeafRequest(subject.user, subject.groups, server=False, life=_LEAF_LIFE))

    def issue_server(self, common_name: str, hosts: Sequence[str]) -> KeyPair:
        """A certificate for a server that is reached by these names and addresses."""
        return self._issue(LeafRequest(common_name, hosts=hosts, client=False, life=_LEAF_LIFE))

    def sign_client(self, request: x509.CertificateSigningRequest, life: timedelta) -> bytes:
        """A client certificate for the subject and the key of a request that somebody has approved, as PEM."""
        leaf = LeafRequest("", server=False, life=life)
        return self._authority.certify(request.public_key(), leaf, _read_clock(), request.subject)

    def has_issued(self, certificate_pem: bytes) -> bool:
        """Whether this authority signed the certificate."""
        return self._authority.has_issued(certificate_pem)

    def _make(self, common_name: str) -> None:
        made = CertificateAuthority.create(common_name, _read_clock(), _CA_LIFE)
        # The key first: with a certificate but no key the pair is made again.
        write_durably(self._key_file, made.key_pem)
        write_durably(self._certificate_file, made.certificate_pem, mode=0o644)

    def _issue(self, request: LeafRequest) -> KeyPair:
        made = self._authority.issue(request, _read_clock())
        return KeyPair(made.certificate, made.key)

    @staticmethod
    def fits(certificate_pem: bytes, key_pem: bytes) -> bool:
        """Whether the private key is the one that the certificate is for."""
        try:
            key = serialization.load_pem_private_key(key_pem, password=None)
        except ValueError:
            return False
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        return key.public_key() == certificate.public_key()


class BadKeyFile(Exception):
    """A file holds no certificate or no key of ours, or the two do not belong together; the message names the file."""


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A private key of ours.

    Raises:
        BadKeyFile: the file is damaged.
    """
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm, OSError) as error:
        raise BadKeyFile(f"{path} is damaged, and no private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadKeyFile(f"{path} is damaged, or not of kvedge: it holds another kind of key")
    return key


def load_pair(certificate_file: Path, key_file: Path) -> tuple[bytes, ec.EllipticCurvePrivateKey]:
    """A certificate, as PEM, and its key.

    Raises:
        BadKeyFile: one is damaged, or they do not belong together.
    """
    key = load_key(key_file)
    try:
        pem = certificate_file.read_bytes()
        certificate = x509.load_pem_x509_certificate(pem)
    except (ValueError, OSError) as error:
        raise BadKeyFile(f"{certificate_file} is damaged, and no certificate: {error}") from error
    if certificate.public_key() != key.public_key():
        raise BadKeyFile(f"{key_file} is not the key of {certificate_file}")
    return pem, key


def put_pair_aside(certificate_file: Path, key_file: Path, why: str) -> None:
    """Make room for a new certificate and key; the damaged files are kept.

    Raises:
        OSError: as the file system has it.
    """
    for path in (certificate_file, key_file):
        if path.exists():
            put_aside(path, why)


def is_fresh(certificate_pem: bytes, now: datetime) -> bool:
    """True while more than a third of a leaf certificate's life is left."""
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    return certificate.not_valid_after_utc - now > _LEAF_LIFE / 3


def server_names(certificate_pem: bytes) -> set[str]:
    """The names and addresses that a server certificate is for."""
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def subject_of(certificate_pem: bytes) -> Subject:
    """Read the subject of a client certificate."""
    subject = x509.load_pem_x509_certificate(certificate_pem).subject
    users = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return Subject(users[0] if users else "", tuple(groups))


def _read_clock() -> datetime:
    """What is made in the past of a box without a clock lives as long as what is made later."""
    return max(datetime.now(UTC), NOT_BEFORE)
