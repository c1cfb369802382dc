"""Requests for certificates, and what was issued for them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from kvedge.runtime.tls.certificate_requests import (
    RequestedNames,
    check_issued,
    new_request,
    parse_request,
    read_requested_names,
)
from kvedge.runtime.tls.certificates import CertificateAuthority, CertificateError, LeafRequest

NOW = datetime(2026, 5, 1, tzinfo=UTC)
AUTHORITY = CertificateAuthority.create("kvedge-ca", NOW)
OTHER = CertificateAuthority.create("kvedge-ca", NOW)
LEAF = LeafRequest("a")


def certified(request: bytes, authority: CertificateAuthority = AUTHORITY) -> bytes:
    return authority.certify(parse_request(request).public_key(), LEAF, NOW)  # type: ignore[arg-type]


def test_a_request_says_all_its_names_and_no_others() -> None:
    made = new_request("ann", ["g1", "g2"], ["a.example", "b.example"])
    found = read_requested_names(parse_request(made.request))
    assert found == RequestedNames(("ann",), ("g1", "g2"), ("a.example", "b.example"))
    assert read_requested_names(parse_request(new_request("ann").request)) == RequestedNames(("ann",))


def test_two_requests_have_two_keys() -> None:
    assert new_request("a").key != new_request("a").key


def test_a_certificate_for_our_key_of_our_authority_is_taken() -> None:
    made = new_request("a")
    check_issued(certified(made.request), made.key, AUTHORITY.certificate_pem)
    # While one authority succeeds another, both are trusted.
    both = OTHER.certificate_pem + AUTHORITY.certificate_pem
    check_issued(certified(made.request), made.key, both)


def test_any_other_certificate_is_not() -> None:
    made, foreign = new_request("a"), new_request("a")
    for certificate, ca, words in (
        (certified(foreign.request), AUTHORITY.certificate_pem, "another key"),
        (certified(made.request, OTHER), AUTHORITY.certificate_pem, "not of the authority"),
        (b"nonsense", AUTHORITY.certificate_pem, "not PEM"),
        (certified(made.request), b"nonsense", "not PEM"),
    ):
        with pytest.raises(CertificateError, match=words):
            check_issued(certificate, made.key, ca)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    for pem in (data, b"-----BEGIN CERTIFICATE REQUEST-----\n" + data + b"\n-----END CERTIFICATE REQUEST-----\n"):
        with pytest.raises(CertificateError):
            parse_request(pem)


# Made with openssl, on the curve sect163k1: well-formed, and of a kind that the library does not know.
ODD_CURVE = b"""\
-----BEGIN CERTIFICATE REQUEST-----
MIGWMFUCAQAwDDEKMAgGA1UEAwwBdzBAMBAGByqGSM49AgEGBSuBBAABAywABAQv
PtYuLh6JGMSywKB4YqAIbO7MSAVy10lVY9FKSk2lwLOVSN9cthZKiqAAMAoGCCqG
SM49BAMCAzEAMC4CFQM5CYaS9KaNbzMSKmSKcbPohZ/izAIVAzectYFjYdz2SzFv
NLMXu0IMm7H+
-----END CERTIFICATE REQUEST-----
"""


def test_a_key_that_nobody_knows_is_refused_like_any_other_nonsense() -> None:
    with pytest.raises(CertificateError, match="can be read"):
        parse_request(ODD_CURVE)


def test_an_extension_twice_is_refused() -> None:
    oid = bytes.fromhex("0603551d11")
    # The second extension gets the first one's number; its key signs whatever stands there.
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName("a.example")])
    other = x509.IssuerAlternativeName([x509.DNSName("b.example")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(names, False)
    twice = builder.add_extension(other, False).sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    forged = twice.replace(bytes.fromhex("0603551d12"), oid)
    lines = base64.encodebytes(forged)
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + lines + b"-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(CertificateError, match="Duplicate"):
        parse_request(pem)
