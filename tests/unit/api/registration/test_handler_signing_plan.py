"""Whose certificates the api role signs: a handler's, for its own node, and for nothing else."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kvedge.api.registration.handler_signing_plan import Approve, Deny, Remove, Sign, plan_request
from kvedge.resources.manifests.role_rights import HANDLER_SIGNER
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.role_users import HANDLER_ACCOUNT, HANDLER_GROUP, NODE_EXTRA
from kvedge.resources.types.certificate_requests import (
    CertificateRequestSpec,
    CertificateRequestStatus,
    CertificateSigningRequest,
    RequestCondition,
)
from kvedge.runtime.clock import rfc3339
from kvedge.runtime.tls.certificate_requests import new_request
from kvedge.runtime.tls.certificates import LEAF_LIFE, CertificateAuthority

NOW = datetime(2026, 5, 1, tzinfo=UTC)
GOOD = new_request("kvedge-handler", hosts=["n1.handler.kvedge.io"]).request
APPROVED = RequestCondition(type="Approved", last_update_time=rfc3339(NOW))


def request(pem: bytes = GOOD, **spec: Any) -> CertificateSigningRequest:
    """A request of the handler of n1; `spec` overrides."""
    usual: dict[str, Any] = {
        "request": base64.b64encode(pem).decode(),
        "signer_name": HANDLER_SIGNER,
        "usages": ["digital signature", "server auth"],
        "username": "kvedge:handler:n1",
        "groups": [HANDLER_GROUP, "system:authenticated"],
    }
    meta = ObjectMeta(name="r", creation_timestamp=rfc3339(NOW))
    return CertificateSigningRequest(metadata=meta, spec=CertificateRequestSpec(**{**usual, **spec}))


def with_status(found: CertificateSigningRequest, certificate: str = "", *conditions: RequestCondition) -> Any:
    status = CertificateRequestStatus(certificate=certificate, conditions=list(conditions))
    return msgspec.structs.replace(found, status=status)


def test_a_handler_gets_a_certificate_for_its_node() -> None:
    assert plan_request(request(), NOW) == Approve("n1")
    step = plan_request(with_status(request(), "", APPROVED), NOW)
    assert isinstance(step, Sign)
    assert (step.leaf.common_name, list(step.leaf.hosts)) == ("kvedge-handler", ["n1.handler.kvedge.io"])
    # Nothing that could call a relay, or a role, in the api role's place.
    assert (step.leaf.server, step.leaf.client) == (True, False)
    assert step.leaf.organizations == ()


def test_a_handler_gets_another_certificate_to_send_guests_with() -> None:
    pem = new_request("kvedge-migration", hosts=["n1.handler.kvedge.io"]).request
    asked = request(pem, usages=["digital signature", "client auth"])
    assert plan_request(asked, NOW) == Approve("n1")
    step = plan_request(with_status(asked, "", APPROVED), NOW)
    assert isinstance(step, Sign)
    assert (step.leaf.common_name, list(step.leaf.hosts)) == ("kvedge-migration", ["n1.handler.kvedge.io"])
    # It serves nobody, and neither of the two can stand in for the other.
    assert (step.leaf.server, step.leaf.client) == (False, True)
    assert isinstance(plan_request(request(pem), NOW), Deny)
    assert isinstance(plan_request(request(GOOD, usages=["client auth"]), NOW), Deny)
    other = new_request("kvedge-migration", hosts=["n2.handler.kvedge.io"]).request
    assert isinstance(plan_request(request(other, usages=["client auth"]), NOW), Deny)


def test_a_service_account_is_the_handler_of_the_node_that_its_token_names() -> None:
    account = {"username": HANDLER_ACCOUNT, "groups": ["system:serviceaccounts"]}
    assert plan_request(request(**account, extra={NODE_EXTRA: ["n1"]}), NOW) == Approve("n1")
    for extra in ({}, {NODE_EXTRA: []}, {NODE_EXTRA: ["n2"]}, {"node-name": ["n1"]}):
        assert isinstance(plan_request(request(**account, extra=extra), NOW), Deny), extra


@pytest.mark.parametrize(
    "who",
    [
        {"username": "kvedge:handler:n2"},
        {"username": "kvedge:handler:"},
        {"username": "kvedge:handler:n1", "groups": ["system:authenticated"]},
        {"username": "n1"},
        {"username": "", "groups": [HANDLER_GROUP]},
        {"username": "kvedge:api", "groups": ["kvedge:apis"]},
        {"username": "kvedge:controller", "groups": ["kvedge:controllers"]},
        {"username": "admin", "groups": ["system:masters"]},
        {"username": "system:node:n2", "groups": ["system:nodes"]},
        {"username": "system:node:n1", "groups": ["system:authenticated"]},
        {"username": "n1", "groups": ["system:nodes"]},
        {"username": "system:serviceaccount:default:kvedge-handler", "extra": {NODE_EXTRA: ["n1"]}, "groups": []},
    ],
    ids=lambda who: f"{who['username'] or 'nobody'} {' '.join(who.get('groups', ['handlers']))}",
)
def test_who_is_not_the_handler_of_that_node_gets_nothing(who: dict[str, Any]) -> None:
    assert isinstance(plan_request(request(**who), NOW), Deny)
    # Neither does an approval of somebody else's change that.
    assert plan_request(with_status(request(**who), "", APPROVED), NOW) is None


def built(builder: x509.CertificateSigningRequestBuilder, key: Any = None) -> bytes:
    key = key or ec.generate_private_key(ec.SECP256R1())
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def subject(*pairs: tuple[x509.ObjectIdentifier, str]) -> x509.CertificateSigningRequestBuilder:
    attributes = [x509.NameAttribute(oid, value) for oid, value in pairs]
    return x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))


def names(*found: x509.GeneralName) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(list(found))


OWN = x509.DNSName("n1.handler.kvedge.io")
HANDLER = (NameOID.COMMON_NAME, "kvedge-handler")
FORGED = {
    "another node": new_request("kvedge-handler", hosts=["n2.handler.kvedge.io"]).request,
    "another node, too": new_request("kvedge-handler", hosts=["n1.handler.kvedge.io", "n2.handler.kvedge.io"]).request,
    "the api role": new_request("kvedge-api", hosts=["n1.handler.kvedge.io"]).request,
    "the api role's service": new_request("kvedge-handler", hosts=["kvedge-api.kvedge-system.svc"]).request,
    "the api role's service, too": new_request(
        "kvedge-handler", hosts=["n1.handler.kvedge.io", "kvedge-api.kvedge-system.svc"]
    ).request,
    "all nodes": new_request("kvedge-handler", hosts=["*.handler.kvedge.io"]).request,
    "the node in other letters": new_request("kvedge-handler", hosts=["N1.handler.kvedge.io"]).request,
    "no host": new_request("kvedge-handler").request,
    "a group": new_request("kvedge-handler", ["system:masters"], ["n1.handler.kvedge.io"]).request,
    "two common names": built(subject(HANDLER, (NameOID.COMMON_NAME, "kvedge-api")).add_extension(names(OWN), False)),
    "no common name": built(subject().add_extension(names(OWN), False)),
    "an address, too": built(
        subject(HANDLER).add_extension(names(OWN, x509.UniformResourceIdentifier("spiffe://api")), False)
    ),
    "a unit": built(subject(HANDLER, (NameOID.ORGANIZATIONAL_UNIT_NAME, "x")).add_extension(names(OWN), False)),
    "an RSA key": built(subject(HANDLER).add_extension(names(OWN), False), rsa.generate_private_key(65537, 2048)),
    "nonsense": b"nonsense",
    "nothing": b"",
}


@pytest.mark.parametrize("pem", FORGED.values(), ids=FORGED.keys())
def test_what_asks_for_more_than_its_own_name_is_denied(pem: bytes) -> None:
    assert isinstance(plan_request(request(pem), NOW), Deny)
    assert plan_request(with_status(request(pem), "", APPROVED), NOW) is None


def test_a_request_that_is_signed_by_another_key_is_denied() -> None:
    der = bytearray(x509.load_pem_x509_csr(GOOD).public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    text = base64.encodebytes(bytes(der))
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + text + b"-----END CERTIFICATE REQUEST-----\n"
    assert isinstance(plan_request(request(pem), NOW), Deny)


@pytest.mark.parametrize(
    "usages",
    [[], ["client auth"], ["server auth", "client auth"], ["server auth", "cert sign"], ["digital signature"], ["any"]],
    ids=str,
)
def test_a_handlers_certificate_is_for_one_thing_only(usages: list[str]) -> None:
    assert isinstance(plan_request(request(usages=usages), NOW), Deny)


def test_what_a_request_adds_does_not_get_into_the_certificate() -> None:
    authority = x509.BasicConstraints(ca=True, path_length=None)
    pem = built(subject(HANDLER).add_extension(names(OWN), False).add_extension(authority, True))
    step = plan_request(with_status(request(pem), "", APPROVED), NOW)
    assert isinstance(step, Sign)
    made = CertificateAuthority.create("kvedge-ca", NOW).certify(step.key, step.leaf, NOW)
    extensions = x509.load_pem_x509_certificate(made).extensions
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == [OWN]
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]


@pytest.mark.parametrize(
    ("seconds", "life"),
    [(None, LEAF_LIFE), (60, timedelta(minutes=10)), (3600, timedelta(hours=1)), (10**9, LEAF_LIFE)],
)
def test_a_certificate_lasts_as_asked_within_limits(seconds: int | None, life: timedelta) -> None:
    step = plan_request(with_status(request(expiration_seconds=seconds), "", APPROVED), NOW)
    assert isinstance(step, Sign)
    assert step.leaf.life == life


def test_requests_for_others_are_left_alone() -> None:
    for signer in ("kubernetes.io/kube-apiserver-client", "kvedge.io/other", ""):
        assert plan_request(request(signer_name=signer), NOW) is None


def test_what_is_decided_goes_after_an_hour() -> None:
    denied = RequestCondition(type="Denied", last_update_time=rfc3339(NOW))
    for decided in (with_status(request(), "eA==", APPROVED), with_status(request(), "", denied)):
        assert plan_request(decided, NOW + timedelta(minutes=59)) is None
        assert plan_request(decided, NOW + timedelta(minutes=61)) == Remove()
    # One that waits is old by the API server's clock only: it is decided, not removed.
    assert plan_request(request(), NOW + timedelta(days=400)) == Approve("n1")
