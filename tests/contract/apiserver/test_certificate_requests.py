"""CertificateSigningRequests: who asks, who approves, who signs; the same on both servers."""

from __future__ import annotations

import base64
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from kvedge.runtime.tls.certificate_requests import NewRequest, new_request
from kvedge.runtime.tls.certificates import CertificateAuthority
from tests.contract.apiserver.conftest import Server, load_pair
from tests.contract.apiserver.test_rbac import give, rule, subject
from tests.support.api_client import ApiClient, eventually

pytestmark = pytest.mark.contract

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CERTIFICATES = "certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
OURS = "example.com/signer"
_numbers = itertools.count(1)


def document(made: NewRequest | None = None, **spec: Any) -> dict[str, Any]:
    """A request that everybody may make; `spec` overrides."""
    made = made or new_request("ann", ["devs"])
    usual = {"request": base64.b64encode(made.request).decode(), "signerName": OURS, "usages": ["client auth"]}
    merged = {key: value for key, value in {**usual, **spec}.items() if value is not None}
    return {"metadata": {"name": f"request-{next(_numbers)}"}, "spec": merged}


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": "Test", "message": "as the test wants"}


def decide(client: ApiClient, name: str, kind: str, part: str = "approval") -> int:
    """Write a condition through a subresource; the status of the answer."""
    live = client.get(f"{REQUESTS}/{name}").json
    live.setdefault("status", {}).setdefault("conditions", []).append(condition(kind))
    return client.put(f"{REQUESTS}/{name}/{part}", live).status


def test_who_asks_is_the_servers_word(api_server: Server) -> None:
    give(api_server.admin, "", [rule("create get", CERTIFICATES, "certificatesigningrequests")], subject("User", "joe"))
    joe = api_server.log_in("joe", ["friends"])
    lie = {"username": "root", "uid": "1", "groups": ["system:masters"], "extra": {"a": ["b"]}}
    eventually(lambda: joe.get(f"{REQUESTS}/none").status == 404)
    spec = joe.made(REQUESTS, document(**lie))["spec"]
    assert spec["username"] == "joe"
    assert set(spec["groups"]) == {"friends", "system:authenticated"}
    assert spec.get("uid", "") == ""
    assert "a" not in (spec.get("extra") or {})
    joe.close()


def test_nothing_of_a_request_changes(admin: ApiClient) -> None:
    made = admin.made(REQUESTS, document())
    path = f"{REQUESTS}/{made['metadata']['name']}"
    other = base64.b64encode(new_request("root").request).decode()
    for part in ("", "/status", "/approval"):
        change = {"spec": {"username": "root", "groups": ["g"], "request": other, "signerName": CLIENT_SIGNER}}
        admin.patch(path + part, change)
        assert admin.get(path).json["spec"] == made["spec"], part
    admin.patch(path, {"status": {"conditions": [condition("Approved")]}})
    assert not admin.get(path).json["status"]


def test_a_new_request_is_not_approved_by_its_sender(admin: ApiClient) -> None:
    body = {**document(), "status": {"conditions": [condition("Approved")], "certificate": "eA=="}}
    assert not admin.made(REQUESTS, body).get("status")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"request": base64.b64encode(b"nonsense").decode()}, "spec.request"),
        ({"request": base64.b64encode(b"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n").decode()},
         "spec.request"),
        ({"usages": []}, "spec.usages"),
        ({"usages": ["client auth", "client auth"]}, "spec.usages[1]"),
        ({"usages": ["world domination"]}, "spec.usages[0]"),
        ({"signerName": ""}, "spec.signerName"),
        ({"signerName": "me"}, "spec.signerName"),
        ({"signerName": "example.com/a/b"}, "spec.signerName"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "spec.signerName"),
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_what_makes_no_sense_is_refused(admin: ApiClient, spec: dict[str, Any], field: str) -> None:
    answer = admin.post(REQUESTS, document(**spec))
    assert answer.status == 422, answer.body
    assert {cause["field"] for cause in answer.causes} == {field}


def test_a_forged_signature_is_refused(admin: ApiClient) -> None:
    der = bytearray(x509.load_pem_x509_csr(new_request("ann").request).public_bytes(Encoding.DER))
    der[-1] ^= 1
    lines = base64.encodebytes(bytes(der))
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + lines + b"-----END CERTIFICATE REQUEST-----\n"
    answer = admin.post(REQUESTS, document(NewRequest(b"", pem)))
    assert answer.status == 422
    assert answer.causes[0]["field"] == "spec.request"


def test_nobody_becomes_an_administrator_by_a_request(admin: ApiClient) -> None:
    masters = new_request("me", ["system:masters"])
    refused = admin.post(REQUESTS, document(masters, signerName=CLIENT_SIGNER))
    assert refused.status == 403
    assert f"use of {CLIENT_SIGNER} signer with system:masters group is not allowed" in refused.message
    # Other signers know what they do.
    assert admin.post(REQUESTS, document(masters)).status == 201


@pytest.mark.parametrize("group", ["kvedge:controllers", "kvedge:apis", "kvedge:handlers", "kvedge:agents"])
def test_administrators_alone_ask_for_certificates_of_kvedges_roles(embedded_server: Server, group: str) -> None:
    wanted = document(new_request("me", ["devs", group]), signerName=CLIENT_SIGNER)
    # Whatever groups the body claims to be asked by.
    claimed = {**wanted, "spec": {**wanted["spec"], "groups": ["system:masters"]}}
    admin, user = embedded_server.admin, f"asker-{next(_numbers)}"
    give(admin, "", [rule("create", CERTIFICATES, "certificatesigningrequests")], subject("User", user))
    asker = embedded_server.log_in(user, [])
    eventually(lambda: asker.post(REQUESTS, document()).status == 201)
    for body in (wanted, claimed):
        refused = asker.post(REQUESTS, body)
        assert refused.status == 403
        assert f"use of {CLIENT_SIGNER} signer with {group} group is not allowed" in refused.message
    assert admin.post(REQUESTS, wanted).status == 201
    asker.close()


def test_to_approve_and_to_sign_are_rights_of_their_own(api_server: Server) -> None:
    admin = api_server.admin
    parts = "certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status"
    user = f"officer-{next(_numbers)}"
    give(admin, "", [rule("get update patch", CERTIFICATES, parts)], subject("User", user))
    officer = api_server.log_in(user, [])
    name = admin.made(REQUESTS, document())["metadata"]["name"]
    eventually(lambda: officer.get(f"{REQUESTS}/{name}").status == 200)
    assert decide(officer, name, "Approved") == 403
    assert decide(officer, name, "Failed", "status") == 403
    give(admin, "", [rule("approve", CERTIFICATES, "signers", "example.com/*")], subject("User", user))
    eventually(lambda: decide(officer, name, "Approved") == 200)
    assert decide(officer, name, "Failed", "status") == 403
    other = admin.made(REQUESTS, document(signerName="example.org/signer"))["metadata"]["name"]
    assert decide(officer, other, "Approved") == 403
    give(admin, "", [rule("sign", CERTIFICATES, "signers", OURS)], subject("User", user))
    eventually(lambda: decide(officer, name, "Failed", "status") == 200)
    officer.close()


def test_what_was_decided_stays(admin: ApiClient) -> None:
    name = admin.made(REQUESTS, document())["metadata"]["name"]
    assert decide(admin, name, "Approved", "status") == 422
    assert decide(admin, name, "Denied", "status") == 422
    assert decide(admin, name, "Approved") == 200
    assert decide(admin, name, "Denied") == 422
    empty = admin.get(f"{REQUESTS}/{name}").json
    empty["status"]["conditions"] = []
    assert admin.put(f"{REQUESTS}/{name}/approval", empty).status == 422
    found = admin.get(f"{REQUESTS}/{name}").json["status"]["conditions"]
    assert [item["type"] for item in found] == ["Approved"]
    assert found[0]["lastUpdateTime"]
    assert found[0]["lastTransitionTime"]


def test_a_condition_of_the_known_ones_is_true_or_not_there(admin: ApiClient) -> None:
    name = admin.made(REQUESTS, document())["metadata"]["name"]
    body = {"status": {"conditions": [condition("Approved", "False")]}}
    assert admin.patch(f"{REQUESTS}/{name}/approval", body).status == 422


def test_a_certificate_comes_once_and_through_the_status_only(admin: ApiClient) -> None:
    name = admin.made(REQUESTS, document())["metadata"]["name"]
    path = f"{REQUESTS}/{name}"
    text = base64.b64encode(some_certificate()).decode()
    admin.patch(f"{path}/approval", {"status": {"certificate": text}})
    assert not (admin.get(path).json.get("status") or {}).get("certificate")
    assert admin.patch(f"{path}/status", {"status": {"certificate": base64.b64encode(b"no").decode()}}).status == 422
    assert admin.patch(f"{path}/status", {"status": {"certificate": text}}).status == 200
    other = base64.b64encode(some_certificate()).decode()
    assert admin.patch(f"{path}/status", {"status": {"certificate": other}}).status == 422
    assert admin.get(path).json["status"]["certificate"] == text


def some_certificate() -> bytes:
    return CertificateAuthority.create("somebody", datetime.now(UTC)).certificate_pem


def test_requests_are_found_by_their_signer(admin: ApiClient) -> None:
    name = admin.made(REQUESTS, document(signerName="example.net/one"))["metadata"]["name"]
    found = admin.get(REQUESTS, fieldSelector="spec.signerName=example.net/one").json["items"]
    assert [item["metadata"]["name"] for item in found] == [name]


# What a cluster's controllers do, and here the server itself.


def signed(admin: ApiClient, made: NewRequest, **spec: Any) -> bytes:
    """The certificate for a request, once it is approved."""
    name = admin.made(REQUESTS, document(made, signerName=CLIENT_SIGNER, **spec))["metadata"]["name"]
    assert decide(admin, name, "Approved") == 200

    def certificate() -> str:
        return str(admin.get(f"{REQUESTS}/{name}").json["status"].get("certificate") or "")

    eventually(lambda: certificate() != "")
    return base64.b64decode(certificate())


def test_an_approved_request_becomes_a_user(embedded_server: Server, tmp_path: Path) -> None:
    made = new_request("kim", ["devs"])
    pem = signed(embedded_server.admin, made)
    context = embedded_server.log_in("", []).context
    load_pair(context, tmp_path, pem, made.key)
    kim = ApiClient(embedded_server.url, context)
    review = kim.made("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review["status"]["userInfo"] == {"username": "kim", "groups": ["devs", "system:authenticated"]}
    kim.close()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, timedelta(days=365)), (3600, timedelta(hours=1)), (10**9, timedelta(days=365))],
    ids=["not said", "an hour", "far too long"],
)
def test_a_certificate_lasts_as_long_as_asked_and_a_year_at_most(
    embedded_server: Server, seconds: int | None, expected: timedelta
) -> None:
    pem = signed(embedded_server.admin, new_request("kim"), expirationSeconds=seconds)
    certificate = x509.load_pem_x509_certificate(pem)
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert expected - timedelta(minutes=2) < left <= expected
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_what_is_not_approved_or_is_not_for_clients_is_not_signed(embedded_server: Server) -> None:
    admin = embedded_server.admin
    waits = admin.made(REQUESTS, document(signerName=CLIENT_SIGNER))["metadata"]["name"]
    denied = admin.made(REQUESTS, document(signerName=CLIENT_SIGNER))["metadata"]["name"]
    assert decide(admin, denied, "Denied") == 200
    server = admin.made(REQUESTS, document(signerName=CLIENT_SIGNER, usages=["server auth"]))["metadata"]["name"]
    assert decide(admin, server, "Approved") == 200

    def failed() -> bool:
        conditions = admin.get(f"{REQUESTS}/{server}").json["status"]["conditions"]
        return [item["type"] for item in conditions] == ["Approved", "Failed"]

    eventually(failed)
    # A later one that is signed shows that the earlier ones have been looked at.
    signed(admin, new_request("kim"))
    for name in (waits, denied, server):
        assert not (admin.get(f"{REQUESTS}/{name}").json.get("status") or {}).get("certificate"), name
