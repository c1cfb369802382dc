"""A handler's request while the api role is away: one request at a time, and the answer is taken when it comes."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.handler.launchers.relay_certificate import RelayCertificate
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.manifests.role_rights import CA_BUNDLE_KEY, CA_BUNDLE_NAME
from kvedge.resources.role_users import HANDLER_GROUP, handler_user
from kvedge.resources.types.certificate_requests import CertificateSigningRequest
from kvedge.resources.types.core import ConfigMap
from kvedge.runtime.tls.certificate_requests import check_issued, parse_request
from kvedge.runtime.tls.certificates import HANDLER_NAME, CertificateAuthority, CertificateError, LeafRequest
from tests.support.either_server import EMBEDDED, EitherServer, running

pytestmark = pytest.mark.contract
SYSTEM = "kvedge-system"
NOW = datetime.now(UTC)


class Hurrying:
    """A clock on which ten seconds pass with every look."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        self._seconds += 10.0
        return self._seconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EitherServer]:
    with running(EMBEDDED, tmp_path_factory.mktemp("embedded")) as server:
        yield server


@pytest.fixture
def asking(server: EitherServer) -> Iterator[RelayCertificate]:
    """A handler, and nobody who signs."""
    for request in server.admin.list(CertificateSigningRequest):
        server.admin.delete(CertificateSigningRequest, "", request.metadata.name)
    client = KubeClient.from_kubeconfig(server.kubeconfig_of(handler_user("n1"), HANDLER_GROUP))
    yield RelayCertificate(client, "n1", Hurrying(), threading.Event())
    client.close()


@pytest.fixture(scope="module")
def authority(server: EitherServer) -> CertificateAuthority:
    """Whom the handlers of this server are told to trust."""
    made = CertificateAuthority.create("kvedge-ca", NOW)
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps"
    body = {"metadata": {"name": CA_BUNDLE_NAME}, "data": {CA_BUNDLE_KEY: made.certificate_pem.decode()}}
    server.admin.request("POST", path, body)
    return made


def requests(server: EitherServer) -> list[CertificateSigningRequest]:
    return server.admin.list(CertificateSigningRequest)


def sign(server: EitherServer, authority: CertificateAuthority) -> None:
    """What the api role would write."""
    (request,) = requests(server)
    key = parse_request(base64.b64decode(request.spec.request)).public_key()
    pem = authority.certify(key, LeafRequest(HANDLER_NAME, hosts=["n1.handler.kvedge.io"]), NOW)  # type: ignore[arg-type]
    patch = MergePatch({"status": {"certificate": base64.b64encode(pem).decode()}})
    server.admin.patch(CertificateSigningRequest, "", request.metadata.name, patch, "status")


def test_while_nobody_signs_no_second_request_is_made(
    server: EitherServer, authority: CertificateAuthority, asking: RelayCertificate
) -> None:
    for _ in range(3):
        with pytest.raises(CertificateError, match="is not signed yet: does the api role run"):
            asking.obtain()
        assert len(requests(server)) == 1
    sign(server, authority)
    material = asking.obtain()
    check_issued(material.certificate, material.key, authority.certificate_pem)
    assert material.ca == authority.certificate_pem


def test_one_that_was_cleaned_up_is_made_anew(
    server: EitherServer, authority: CertificateAuthority, asking: RelayCertificate
) -> None:
    with pytest.raises(CertificateError):
        asking.obtain()
    (first,) = requests(server)
    server.admin.delete(CertificateSigningRequest, "", first.metadata.name)
    with pytest.raises(NotFound):
        asking.obtain()
    with pytest.raises(CertificateError, match="not signed yet"):
        asking.obtain()
    (second,) = requests(server)
    assert second.metadata.name != first.metadata.name


def test_a_certificate_of_an_authority_that_is_not_trusted_is_not_used(
    server: EitherServer, authority: CertificateAuthority, asking: RelayCertificate
) -> None:
    with pytest.raises(CertificateError):
        asking.obtain()
    sign(server, CertificateAuthority.create("kvedge-ca", NOW))
    with pytest.raises(CertificateError, match="not of the authority"):
        asking.obtain()
    with pytest.raises(CertificateError, match="a moment ago"):
        asking.obtain()
    # The clock hurries: a minute later a new one is asked for.
    for _ in range(6):
        with pytest.raises(CertificateError):
            asking.obtain()
    assert len(requests(server)) == 2


def test_without_a_word_whom_to_trust_there_is_no_certificate(
    server: EitherServer, authority: CertificateAuthority, asking: RelayCertificate
) -> None:
    server.admin.patch(ConfigMap, SYSTEM, CA_BUNDLE_NAME, MergePatch({"data": {CA_BUNDLE_KEY: ""}}))
    with pytest.raises(CertificateError, match=r"has no ca\.crt"):
        asking.read_trusted()


def test_a_handler_that_stops_waits_for_nobody(server: EitherServer, tmp_path: Path) -> None:
    client = KubeClient.from_kubeconfig(server.kubeconfig_of(handler_user("n1"), HANDLER_GROUP))
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(CertificateError, match="being stopped"):
        RelayCertificate(client, "n1", Hurrying(), stopping).obtain()
    client.close()
