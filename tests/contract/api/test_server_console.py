"""The web console on a server of a cluster: a program of its own, with the api role, before an API server of its own.

Two api roles that have no Service in common would take the webhooks of one server from one another.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest
from tests.support.api_servers import EmbeddedServer
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract]

_CORE = "/api/v1/namespaces/default"
_BINDING = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The embedded one: the console does not differ by server."""
    server = EmbeddedServer(tmp_path_factory.mktemp("embedded"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def token(own_server: EmbeddedServer) -> Iterator[str]:
    """Of an account that may only view."""
    admin = KubeClient.from_kubeconfig(own_server.write_kubeconfig("admin", ["system:masters"]))
    admin.request("POST", f"{_CORE}/serviceaccounts", {"metadata": {"name": "viewer"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}
    admin.request("POST", _BINDING, {"metadata": {"name": "viewer"}, "roleRef": role, "subjects": [subject]})
    yield admin.request("POST", f"{_CORE}/serviceaccounts/viewer/token", {"spec": {}})["status"]["token"]
    admin.close()


@contextlib.contextmanager
def api_program(server: EmbeddedServer, directory: Path, *options: str) -> Iterator[int]:
    """`kvedge api` with a console; the console's port."""
    port = free_port()
    kubeconfig = server.write_kubeconfig("kvedge-api", ["system:masters"])
    given = [f"--data-dir={directory}", f"--kubeconfig={kubeconfig}", f"--api-address={server.listen_host}:0"]
    command = [sys.executable, "-m", "kvedge", "api", *given, f"--console-address=127.0.0.1:{port}", *options]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.terminate()
        assert process.wait(30) == 0


async def ask(port: int, authority: Path, path: str, body: JsonObject | None, cookies: dict[str, str]) -> Any:
    """One request of a browser that trusts this authority and no other."""
    origin = f"https://127.0.0.1:{port}"
    async with aiohttp.ClientSession(cookies=cookies) as http:
        sent = {"Origin": origin, "X-Kvedge-Console": "1"}
        method = "GET" if body is None else "POST"
        tls = ssl.create_default_context(cafile=str(authority))
        async with http.request(method, f"{origin}{path}", json=body, headers=sent, ssl=tls) as answer:
            found = {name: morsel.value for name, morsel in answer.cookies.items()}
            return answer.status, await answer.json(), found


def served(port: int, authority: Path) -> bool:
    """Whether the console answers, and shows a certificate of the authority."""
    try:
        return bool(asyncio.run(ask(port, authority, "/ways", None, {}))[0] == 200)
    except (aiohttp.ClientError, OSError):
        return False


def test_a_server_serves_the_console_with_an_authority_of_its_own_and_the_users_rights_alone(
    own_server: EmbeddedServer, token: str, tmp_path: Path
) -> None:
    authority = tmp_path / "state" / "console" / "ca.crt"
    with api_program(own_server, tmp_path) as port:
        wait_until(lambda: authority.exists() and served(port, authority), "the console is served")

        async def test() -> None:
            status, _, cookies = await ask(port, authority, "/sign-in", {"credential": token}, {})
            assert status == 200
            assert (await ask(port, authority, "/who", None, cookies))[0] == 200
            assert (await ask(port, authority, "/rights/default", None, cookies))[1]["edit"] is False
            # The role itself may read nodes.
            assert (await ask(port, authority, "/nodes", None, cookies))[0] == 403
            assert (await ask(port, authority, "/sign-in", {"credential": "x" * 32}, {}))[0] == 403

        asyncio.run(test())
    with api_program(own_server, tmp_path) as port:
        wait_until(lambda: served(port, authority), "a browser that trusts the authority still does")


def test_a_server_shows_the_certificate_that_it_was_given(own_server: EmbeddedServer, tmp_path: Path) -> None:
    authority, certificate, key = (tmp_path / name for name in ("root.crt", "tls.crt", "tls.key"))
    now = datetime.now(UTC)
    made = CertificateAuthority.create("site", now).issue(LeafRequest("console", hosts=["127.0.0.1"]), now)
    authority.write_bytes(made.ca)
    key.write_bytes(made.key)
    certificate.write_bytes(made.certificate)
    options = (f"--console-certificate={certificate}", f"--console-key={key}")
    with api_program(own_server, tmp_path / "data", *options) as port:
        wait_until(lambda: served(port, authority), "the console shows it")
        assert not (tmp_path / "data" / "state" / "console").exists()
