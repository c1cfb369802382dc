"""PKCS #10: a key of one's own and the request for a certificate for it, and what somebody else's request says.

Used by the handler's relay and the CLI, which ask, and by the api role, which signs. Pure but for random keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct

from kvedge.runtime.tls.certificates import CertificateError

# The library's errors for a bad document: a curve that it does not know, an extension twice, a name of a kind that it
# does not read.
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class NewRequest(Struct, frozen=True):
    """A private key and the request for a certificate for it, both PEM."""

    key: bytes
    request: bytes


class RequestedNames(Struct, frozen=True):
    """All names in a request: the subject's, and the alternative ones as (type, value)."""

    common_names: tuple[str, ...]
    organizations: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    # Anything else that the subject or the alternative names hold, in words.
    others: tuple[str, ...] = ()


def new_request(common_name: str, organizations: Sequence[str] = (), hosts: Sequence[str] = ()) -> NewRequest:
    """A new key, and the request for a certificate in these names; hosts are DNS names."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return NewRequest(pem, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def parse_request(pem: bytes) -> x509.CertificateSigningRequest:
    """A request whose sender has shown to have the key, and of which every part can be read.

    Raises:
        CertificateError: it is none, its signature is another key's, or it holds what nobody here knows.
    """
    try:
        request = x509.load_pem_x509_csr(pem)
        valid = request.is_signature_valid
        # Read now: they are decoded late, and nobody behind this is to stumble over them.
        _ = request.public_key(), list(request.subject), list(request.extensions)
    except _UNREADABLE as error:
        raise CertificateError(f"the request is not a PEM certificate request that can be read: {error}") from error
    if not valid:
        raise CertificateError("the request's signature does not fit its key")
    return request


def read_requested_names(request: x509.CertificateSigningRequest) -> RequestedNames:
    """What the request, one that was parsed here, wants to be called."""
    known: dict[x509.ObjectIdentifier, list[str]] = {NameOID.COMMON_NAME: [], NameOID.ORGANIZATION_NAME: []}
    others = []
    for attribute in request.subject:
        if attribute.oid in known:
            known[attribute.oid].append(str(attribute.value))
        else:
            others.append(attribute.rfc4514_string())
    hosts = []
    for extension in request.extensions:
        if not isinstance(extension.value, x509.SubjectAlternativeName):
            continue
        for name in extension.value:
            if isinstance(name, x509.DNSName):
                hosts.append(name.value)
            else:
                others.append(repr(name))
    return RequestedNames(
        tuple(known[NameOID.COMMON_NAME]), tuple(known[NameOID.ORGANIZATION_NAME]), tuple(hosts), tuple(others)
    )


def check_issued(certificate_pem: bytes, key_pem: bytes, ca_pem: bytes) -> None:
    """Make sure that a certificate is for our key and of the authority that we trust.

    Raises:
        CertificateError: it is not.
    """
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        authorities = x509.load_pem_x509_certificates(ca_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
    except ValueError as error:
        raise CertificateError(
            f"the certificate, its key or the authority's certificate is not PEM: {error}"
        ) from error
    if key.public_key() != certificate.public_key():
        raise CertificateError("the certificate that was issued is for another key")
    if not any(_is_issued_by(certificate, authority) for authority in authorities):
        raise CertificateError("the certificate that was issued is not of the authority that is to be trusted")


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
