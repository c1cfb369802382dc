"""Every call is checked by the exact subresource, for the user whom the API server has authenticated."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from kvedge.api.api_service import ApiRole
from kvedge.kube.errors import Forbidden, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.codec import JsonObject
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.builders import small_vmi, vm_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
SUB = "/apis/subresources.kubevirt.io/v1/namespaces/default"
VM, VMI = f"{SUB}/virtualmachines/lone", f"{SUB}/virtualmachineinstances/lone"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
GROUP = "rbac.authorization.k8s.io"
_numbers = itertools.count(1)


class Users:
    """Users who may do what one role says, and nothing else."""

    def __init__(self, server: ApiServerUnderTest, admin: KubeClient) -> None:
        self._server = server
        self._admin = admin
        self._made: list[str] = []
        self._clients: list[KubeClient] = []

    def who_may(self, verb: str, resource: str, name: str = "") -> KubeClient:
        """A new user with one right in the namespace default."""
        user = f"user-{next(_numbers)}"
        rule: JsonObject = {"apiGroups": ["subresources.kubevirt.io"], "resources": [resource], "verbs": [verb]}
        if name:
            rule["resourceNames"] = [name]
        self._admin.request("POST", f"{RBAC}/roles", {"metadata": {"name": user}, "rules": [rule]})
        subjects = [{"kind": "User", "name": user, "apiGroup": GROUP}]
        reference = {"kind": "Role", "name": user, "apiGroup": GROUP}
        binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
        self._admin.request("POST", f"{RBAC}/rolebindings", binding)
        self._made.append(user)
        client = KubeClient.from_kubeconfig(self._server.write_kubeconfig(user))
        self._clients.append(client)
        return client

    def remove(self) -> None:
        for client in self._clients:
            client.close()
        for user in self._made:
            self._admin.request("DELETE", f"{RBAC}/rolebindings/{user}")
            self._admin.request("DELETE", f"{RBAC}/roles/{user}")


@pytest.fixture
def users(server: ApiServerUnderTest, admin: KubeClient) -> Iterator[Users]:
    made = Users(server, admin)
    yield made
    made.remove()


@pytest.fixture(scope="module", autouse=True)
def lone(admin: KubeClient, controller: KubeClient, webhooks_are_called: None) -> Iterator[None]:
    """A VM and a VMI that are nowhere: what is let through is then refused for another reason."""
    vm, vmi = vm_of(small_vmi(), runStrategy="Manual"), small_vmi()
    vm["metadata"]["name"] = vmi["metadata"]["name"] = "lone"
    base = "/apis/kubevirt.io/v1/namespaces/default"
    admin.request("POST", f"{base}/virtualmachines", vm)
    controller.request("POST", f"{base}/virtualmachineinstances", vmi)
    yield
    remove(admin, f"{base}/virtualmachines/lone")
    remove(admin, f"{base}/virtualmachineinstances/lone")


def refusal(client: KubeClient, method: str, path: str) -> str:
    """Why the user may not; nothing when it was something else that stood in the way, or nothing did."""
    try:
        client.request(method, path, {} if method == "PUT" else None)
    except Forbidden as error:
        return error.message
    except KubeError:
        return ""
    return ""


ALLOWED = [
    ("get", "virtualmachineinstances/vnc", "GET", f"{VMI}/vnc"),
    ("get", "virtualmachineinstances/console", "GET", f"{VMI}/console"),
    ("get", "virtualmachineinstances/portforward", "GET", f"{VMI}/portforward/22/tcp"),
    ("get", "virtualmachineinstances/guestosinfo", "GET", f"{VMI}/guestosinfo"),
    ("update", "virtualmachineinstances/pause", "PUT", f"{VMI}/pause"),
    ("update", "virtualmachines/start", "PUT", f"{VM}/start"),
    ("get", "virtualmachines/expand-spec", "GET", f"{VM}/expand-spec"),
    ("update", "expand-vm-spec", "PUT", f"{SUB}/expand-vm-spec"),
]
EVERYTHING = [
    *(("GET", f"{VMI}/{name}") for name in ("vnc", "vnc/screenshot", "console", "portforward/22", "guestosinfo",
                                            "userlist", "filesystemlist", "usbredir")),
    *(("PUT", f"{VMI}/{name}") for name in ("pause", "unpause", "freeze", "unfreeze", "reset", "softreboot",
                                            "addvolume", "sev/setupsession")),
    *(("PUT", f"{VM}/{name}") for name in ("start", "stop", "restart", "migrate", "addvolume", "evacuate/cancel")),
    ("GET", f"{VM}/expand-spec"),
    ("GET", f"{VM}/portforward/22/tcp"),
    ("PUT", f"{SUB}/expand-vm-spec"),
]  # fmt: skip


def of(path: str) -> str:
    """The path without a port and a protocol, which are no part of the subresource."""
    return path.partition("/portforward/")[0] + "/portforward" if "/portforward/" in path else path


@pytest.mark.parametrize(("verb", "resource", "method", "path"), ALLOWED, ids=[case[1] for case in ALLOWED])
def test_who_may_do_one_thing_may_do_nothing_else(
    users: Users, verb: str, resource: str, method: str, path: str
) -> None:
    user = users.who_may(verb, resource)
    # A server needs a moment to follow its roles.
    wait_until(lambda: refusal(user, method, path) == "", f"{resource} is allowed")
    for other_method, other in EVERYTHING:
        if (other_method, of(other)) != (method, of(path)):
            assert refusal(user, other_method, other), f"{other_method} {other}"


def test_a_display_may_be_looked_at_without_taking_pictures(users: Users) -> None:
    user = users.who_may("get", "virtualmachineinstances/vnc")
    wait_until(lambda: refusal(user, "GET", f"{VMI}/vnc") == "", "vnc is allowed")
    said = refusal(user, "GET", f"{VMI}/vnc/screenshot")
    assert 'cannot get resource "virtualmachineinstances/vnc/screenshot"' in said


def test_a_right_for_one_vm_is_none_for_another(users: Users) -> None:
    user = users.who_may("update", "virtualmachines/start", "lone")
    wait_until(lambda: refusal(user, "PUT", f"{VM}/start") == "", "start is allowed")
    assert refusal(user, "PUT", f"{SUB}/virtualmachines/other/start")


def test_a_right_in_one_namespace_is_none_in_another(users: Users) -> None:
    user = users.who_may("update", "virtualmachines/start")
    wait_until(lambda: refusal(user, "PUT", f"{VM}/start") == "", "start is allowed")
    assert refusal(user, "PUT", VM.replace("/default/", "/kube-system/") + "/start")


def test_reading_is_not_changing(users: Users) -> None:
    user = users.who_may("get", "virtualmachines/start")
    assert refusal(user, "PUT", f"{VM}/start")


@pytest.mark.parametrize("path", ["/version", "/guestfs", ""])
def test_everybody_who_is_known_may_ask_what_there_is(users: Users, path: str) -> None:
    user = users.who_may("get", "virtualmachineinstances/vnc")
    assert refusal(user, "GET", f"/apis/subresources.kubevirt.io/v1{path}") == ""


class Direct:
    """A connection with a user's own certificate, and whatever headers one likes."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        self.server = urlsplit(document["clusters"][0]["cluster"]["server"])
        self._cluster, self._user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self._directory = kubeconfig.parent

    def put(self, host: str, port: int, ca: bytes, path: str, headers: dict[str, str]) -> tuple[int, str]:
        context = ssl.create_default_context(cadata=ca.decode())
        context.load_cert_chain(self._file("client-certificate"), self._file("client-key"))
        connection = http.client.HTTPSConnection(host, port, context=context, timeout=20)
        try:
            connection.request("PUT", path, headers=headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read()).get("message", "")
        finally:
            connection.close()

    def server_ca(self) -> bytes:
        if "certificate-authority" in self._cluster:
            return Path(self._cluster["certificate-authority"]).read_bytes()
        return base64.b64decode(self._cluster["certificate-authority-data"])

    def _file(self, name: str) -> Path:
        if name in self._user:
            return Path(self._user[name])
        path = self._directory / f"direct-{name}"
        path.write_bytes(base64.b64decode(self._user[f"{name}-data"]))
        return path


FORGED = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}


def test_a_users_certificate_speaks_for_nobody_at_the_role_itself(
    server: ApiServerUnderTest, api_role: ApiRole, admin: KubeClient
) -> None:
    # Valid at the API server, even as an administrator; of another authority than the front proxy's.
    direct = Direct(server.write_kubeconfig("mallory", ["system:masters"]))
    ca = existing_authority(admin).bundle
    with pytest.raises((ssl.SSLError, ConnectionError)):
        direct.put(api_role.endpoint.address, api_role.endpoint.port, ca, f"{VM}/start", FORGED)


def test_headers_that_a_user_sends_to_the_api_server_are_not_believed(server: ApiServerUnderTest) -> None:
    direct = Direct(server.write_kubeconfig("trudy"))
    host, port = str(direct.server.hostname), int(direct.server.port or 443)
    status, message = direct.put(host, port, direct.server_ca(), f"{VM}/start", FORGED)
    assert status == 403, message
    assert 'User "trudy" cannot update resource "virtualmachines/start"' in message
