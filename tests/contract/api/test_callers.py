"""Who is believed by the aggregated API itself, asked without an API server in between."""

from __future__ import annotations

import http.client
import json
import ssl

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.runtime.clock import SystemClock
from kvedge.runtime.tls.certificates import LeafRequest, TlsMaterial
from kvedge.runtime.tls.tls_contexts import client_context
from tests.support.api_servers import ApiServerUnderTest

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
FRONT_PROXY = "front-proxy-client"
START = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/absent/start"


def ask(
    role: ApiRole, admin: KubeClient, pair: tuple[bytes, bytes] | None, headers: dict[str, str], path: str = START
) -> tuple[int, str]:
    """Status and message of a PUT to the role."""
    ca = existing_authority(admin).bundle
    anonymous = ssl.create_default_context(cadata=ca.decode())
    context = anonymous if pair is None else client_context(TlsMaterial(ca, *pair))
    connection = http.client.HTTPSConnection(role.endpoint.address, role.endpoint.port, context=context, timeout=20)
    try:
        connection.request("PUT", path, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())["message"]
    finally:
        connection.close()


def test_the_front_proxy_speaks_for_an_admin(server: ApiServerUnderTest, api_role: ApiRole, admin: KubeClient) -> None:
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    status, message = ask(api_role, admin, server.front_proxy_client(FRONT_PROXY), headers)
    assert (status, message) == (404, 'virtualmachine.kubevirt.io "absent" not found')


def test_a_user_without_the_right_is_refused_by_the_role_itself(
    server: ApiServerUnderTest, api_role: ApiRole, admin: KubeClient
) -> None:
    status, message = ask(api_role, admin, server.front_proxy_client(FRONT_PROXY), {"X-Remote-User": "bob"})
    assert status == 403
    assert 'User "bob" cannot update resource "virtualmachines/start"' in message


def test_another_client_of_the_same_authority_is_not_believed(
    server: ApiServerUnderTest, api_role: ApiRole, admin: KubeClient
) -> None:
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    assert ask(api_role, admin, server.front_proxy_client("kubelet"), headers) == (401, "Unauthorized")


def test_headers_without_a_certificate_are_not_believed(api_role: ApiRole, admin: KubeClient) -> None:
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    assert ask(api_role, admin, None, headers) == (401, "Unauthorized")


def test_a_certificate_of_kvedges_own_authority_is_turned_away(api_role: ApiRole, admin: KubeClient) -> None:
    own = existing_authority(admin).issue(LeafRequest(FRONT_PROXY), SystemClock().now())
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(api_role, admin, (own.certificate, own.key), {"X-Remote-User": "root"})


@pytest.mark.parametrize(
    "path",
    [
        START.replace("/default/", "/default%2f..%2fkube-system/"),
        START.replace("absent", ".."),
        START.replace("absent", "%2e%2e%2f%2e%2e"),
        START + "/../stop",
    ],
)
def test_tricks_with_paths_end_nowhere(
    server: ApiServerUnderTest, api_role: ApiRole, admin: KubeClient, path: str
) -> None:
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    ca = existing_authority(admin).bundle
    context = client_context(TlsMaterial(ca, *server.front_proxy_client(FRONT_PROXY)))
    connection = http.client.HTTPSConnection(
        api_role.endpoint.address, api_role.endpoint.port, context=context, timeout=20
    )
    try:
        connection.request("PUT", path, headers=headers)
        assert connection.getresponse().status in (400, 404, 405)
    finally:
        connection.close()


def path_of(admin: KubeClient, plain: str) -> str:
    """Where the API server calls a webhook whose path begins like this."""
    registered = admin.request("GET", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kvedge")
    paths = {hook["clientConfig"]["service"]["path"] for hook in registered["webhooks"]}
    [found] = [path for path in paths if path.startswith(f"{plain}/")]
    return str(found)


@pytest.mark.parametrize(
    "plain", ["/validate-eviction", "/validate-migration", "/validate-kubevirt", "/validate-backup-source"]
)
def test_a_webhook_that_asks_or_writes_is_not_there_for_others(
    api_role: ApiRole, admin: KubeClient, plain: str
) -> None:
    context = ssl.create_default_context(cadata=existing_authority(admin).bundle.decode())
    request = {"uid": "forged", "operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

    def status(path: str) -> int:
        connection = http.client.HTTPSConnection(
            api_role.endpoint.address, api_role.endpoint.port, context=context, timeout=20
        )
        try:
            connection.request("POST", path, json.dumps(review))
            return connection.getresponse().status
        finally:
            connection.close()

    known = path_of(admin, plain)
    assert [status(path) for path in (plain, f"{plain}/guess", known[:-1], known)] == [404, 404, 404, 200]
