"""Handlers' certificates on both servers: each gets its own node's from the api role, and nothing else from anybody."""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from kvedge.api.api_service import ApiRole
from kvedge.handler.launchers.relay_certificate import RelayCertificate
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.kube.errors import Forbidden, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.manifests.role_rights import CA_BUNDLE_KEY, CA_BUNDLE_NAME, HANDLER_SIGNER
from kvedge.resources.types.certificate_requests import CertificateSigningRequest
from kvedge.resources.types.core import ConfigMap, Secret
from kvedge.runtime.clock import SystemClock
from kvedge.runtime.tls.certificate_requests import new_request
from kvedge.runtime.tls.certificates import API_NAME, LEAF_LIFE, CertificateError, LeafRequest, TlsMaterial
from kvedge.runtime.tls.tls_contexts import client_context
from tests.contract.api.conftest import handler_client
from tests.support.api_servers import ApiServerUnderTest
from tests.support.clocks import TurnedClock
from tests.support.echo_door import EchoDoor
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("api_role")]
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SYSTEM = "kvedge-system"


@pytest.fixture(scope="module")
def handler(server: ApiServerUnderTest, admin: KubeClient) -> Iterator[KubeClient]:
    client = handler_client(server, "n1")
    yield client
    client.close()


def certificate_of(client: KubeClient, node: str) -> TlsMaterial:
    return RelayCertificate(client, node, SystemClock(), threading.Event()).obtain()


def ask(client: KubeClient, common_name: str, *hosts: str, **spec: Any) -> str:
    """A request for these names; its name."""
    request = base64.b64encode(new_request(common_name, hosts=hosts).request).decode()
    usual = {"request": request, "signerName": HANDLER_SIGNER, "usages": ["digital signature", "server auth"]}
    body = {"metadata": {"generateName": "forged-"}, "spec": {**usual, **spec}}
    created = client.request("POST", REQUESTS, body)
    return str(created["metadata"]["name"])


def outcome(admin: KubeClient, name: str) -> str:
    """What becomes of a request: `Denied`, or `Issued`."""

    def decided() -> str:
        status = admin.get(CertificateSigningRequest, "", name).status
        return "Issued" if status.certificate else "Denied" if status.condition("Denied") else ""

    return str(wait_until(decided, f"{name} is decided"))


def test_a_handler_gets_a_certificate_that_serves_its_node_and_calls_nobody(handler: KubeClient) -> None:
    material = certificate_of(handler, "n1")
    found = x509.load_pem_x509_certificate(material.certificate).extensions
    names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1.handler.kvedge.io"]
    assert list(found.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert found.get_extension_for_class(x509.BasicConstraints).value.ca is False


FORGERIES = [
    ("kvedge-handler", ["n2.handler.kvedge.io"]),
    ("kvedge-handler", ["n1.handler.kvedge.io", "n2.handler.kvedge.io"]),
    ("kvedge-handler", ["kvedge-api.kvedge-system.svc"]),
    ("kvedge-handler", ["*.handler.kvedge.io"]),
    ("kvedge-api", ["n1.handler.kvedge.io"]),
    ("kvedge-api", []),
]


@pytest.mark.parametrize(
    ("common_name", "hosts"), FORGERIES, ids=[" ".join([name, *hosts]) for name, hosts in FORGERIES]
)
def test_a_handler_gets_nothing_for_another_node_or_role(
    admin: KubeClient, handler: KubeClient, common_name: str, hosts: list[str]
) -> None:
    assert outcome(admin, ask(handler, common_name, *hosts)) == "Denied"


def test_what_a_request_says_of_its_sender_is_not_believed(admin: KubeClient, handler: KubeClient) -> None:
    lie = {"username": "kvedge:handler:n2", "groups": ["kvedge:handlers"]}
    assert outcome(admin, ask(handler, "kvedge-handler", "n2.handler.kvedge.io", **lie)) == "Denied"
    # And the truth is not made a lie by it.
    assert outcome(admin, ask(handler, "kvedge-handler", "n1.handler.kvedge.io", **lie)) == "Issued"


def test_even_an_administrator_is_not_a_handler(admin: KubeClient) -> None:
    assert outcome(admin, ask(admin, "kvedge-handler", "n1.handler.kvedge.io")) == "Denied"


def test_an_approval_by_somebody_else_does_not_make_the_api_role_sign(
    admin: KubeClient, handler: KubeClient, api_role: ApiRole
) -> None:
    # Approved in the request itself, before the role can look at it, is no approval at all.
    request = base64.b64encode(new_request("kvedge-api").request).decode()
    spec = {"request": request, "signerName": HANDLER_SIGNER, "usages": ["server auth"]}
    condition = {"type": "Approved", "status": "True", "reason": "Me", "message": ""}
    body = {"metadata": {"name": "approved-by-itself"}, "spec": spec, "status": {"conditions": [condition]}}
    handler.request("POST", REQUESTS, body)
    assert outcome(admin, "approved-by-itself") == "Denied"


def test_a_handler_cannot_approve_sign_or_see_the_authority(
    admin: KubeClient, handler: KubeClient, controller: KubeClient
) -> None:
    name = ask(admin, "kvedge-handler", signerName="example.com/later")
    condition = {"type": "Approved", "status": "True", "reason": "Me", "message": ""}
    for client in (handler, controller):
        with pytest.raises(Forbidden):
            client.request("PATCH", f"{REQUESTS}/{name}/approval", {"status": {"conditions": [condition]}}, None,
                           "application/merge-patch+json")  # fmt: skip
        with pytest.raises(Forbidden):
            client.get(Secret, SYSTEM, "kvedge-ca")
        with pytest.raises(Forbidden):
            client.request("GET", f"/api/v1/namespaces/{SYSTEM}/secrets")
        with pytest.raises(Forbidden):
            client.request("PATCH", f"/api/v1/namespaces/{SYSTEM}/configmaps/{CA_BUNDLE_NAME}", {"data": {}}, None,
                           "application/merge-patch+json")  # fmt: skip


def test_handlers_are_told_whom_to_trust_and_a_change_of_it_heals(
    admin: KubeClient, handler: KubeClient, api_role: ApiRole
) -> None:
    bundle = existing_authority(admin).bundle.decode()
    assert handler.get(ConfigMap, SYSTEM, CA_BUNDLE_NAME).data[CA_BUNDLE_KEY] == bundle
    # Its own rounds would put it back at any moment.
    with api_role._refreshing:
        admin.delete(ConfigMap, SYSTEM, CA_BUNDLE_NAME)
        with pytest.raises(KubeError):
            certificate_of(handler, "n1")
    api_role.refresh()
    assert handler.get(ConfigMap, SYSTEM, CA_BUNDLE_NAME).data[CA_BUNDLE_KEY] == bundle


def test_one_that_is_refused_is_told_and_does_not_ask_again_at_once(admin: KubeClient, handler: KubeClient) -> None:
    asking = RelayCertificate(handler, "n2", SystemClock(), threading.Event())
    with pytest.raises(CertificateError, match="is refused: kvedge:handler:n1 may ask for kvedge-handler at n1"):
        asking.obtain()
    before = len(admin.list(CertificateSigningRequest))
    with pytest.raises(CertificateError, match="a moment ago"):
        asking.obtain()
    assert len(admin.list(CertificateSigningRequest)) == before


def test_what_was_decided_is_cleaned_up(admin: KubeClient, handler: KubeClient, role_clock: TurnedClock) -> None:
    decided = [ask(handler, "kvedge-handler", "n1.handler.kvedge.io"), ask(handler, "kvedge-api")]
    assert [outcome(admin, name) for name in decided] == ["Issued", "Denied"]
    role_clock.turn(timedelta(hours=2))
    for name in decided:
        # The role looks at each again after a while; a change makes it look now.
        label = MergePatch({"metadata": {"labels": {"look": "again"}}})
        admin.patch(CertificateSigningRequest, "", name, label)
    left = wait_until(
        lambda: not {item.metadata.name for item in admin.list(CertificateSigningRequest)} & set(decided),
        "the requests are gone",
    )
    assert left


def test_a_relay_renews_its_certificate_while_it_serves(
    admin: KubeClient, handler: KubeClient, role_clock: TurnedClock
) -> None:
    clock = TurnedClock()
    relay = RelayService(handler, RelayConfig("n1"), EchoDoor(), clock)
    relay.start()
    wait_until(lambda: relay.address, "the relay serves")
    first = served_certificate(relay.address)
    clock.turn(LEAF_LIFE * 2 // 3 + timedelta(days=1))
    relay.refresh()
    assert served_certificate(relay.address) != first
    relay.stop()


def served_certificate(address: str) -> str:
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def test_a_handlers_certificate_opens_no_other_relay(admin: KubeClient, handler: KubeClient) -> None:
    relay = RelayService(handler, RelayConfig("n1"), EchoDoor())
    relay.start()
    wait_until(lambda: relay.address, "the relay serves")
    try:
        stolen = certificate_of(handler, "n1")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            called(relay.address, stolen, "n1.handler.kvedge.io")
        # Whoever else has a certificate of the authority is known by name, and turned away by it.
        other = existing_authority(admin).issue(LeafRequest("somebody"), datetime.now(UTC))
        assert called(relay.address, other, "n1.handler.kvedge.io") == 403
        api = existing_authority(admin).issue(LeafRequest(API_NAME), datetime.now(UTC))
        assert called(relay.address, api, "n1.handler.kvedge.io") not in (401, 403)
        # And a relay is asked for by its own node's name.
        with pytest.raises(ssl.SSLCertVerificationError):
            called(relay.address, api, "n2.handler.kvedge.io")
    finally:
        relay.stop()


def called(address: str, material: TlsMaterial, server_name: str) -> int:
    """The status of a call to a relay with this certificate, that expects the server to have that name."""
    context = client_context(material)
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
    plain = http.client.HTTPConnection(host, int(port), timeout=20)
    plain.connect()
    assert plain.sock is not None
    try:
        connection.sock = context.wrap_socket(plain.sock, server_hostname=server_name)
        connection.request("GET", "/v1/namespaces/default/virtualmachineinstances/x/guestosinfo")
        return connection.getresponse().status
    finally:
        connection.close()
        plain.close()
