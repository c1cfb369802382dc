"""ID tokens of a kubeconfig: used while they are good, and exchanged at their issuer's when they have ended."""

from __future__ import annotations

import base64
import json
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kvedge.kube.credentials.connection_settings import Connection, KubeconfigError, from_document
from kvedge.kube.credentials.oidc_token import OidcProvider, end_of
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault
from tests.support.https_backend import HttpsBackend


def id_token(seconds: float, name: str = "u") -> str:
    """A token that ends so many seconds from now; nobody here looks at signatures."""
    claims = json.dumps({"sub": name, "exp": int(time.time() + seconds)}).encode()
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b"{}", claims, b"s"))


class Issuer:
    """An issuer that gives one token after the other, and notes who asked for them."""

    def __init__(self, directory: Path) -> None:
        self.answers: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.backend = HttpsBackend(directory, self._serve, "127.0.0.1", ["127.0.0.1"])
        self.url = f"https://127.0.0.1:{self.backend.start()}/realm"

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/realm/.well-known/openid-configuration":
            return web.json_response({"token_endpoint": f"{self.url}/token"})
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.asked.append((request.headers.get("Authorization", ""), form))
        if not self.answers:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response(self.answers.pop(0))


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    made = Issuer(tmp_path / "issuer")
    yield made
    made.backend.stop()


def connect(issuer: Issuer, token: str, **more: Any) -> Connection:
    config = {
        "idp-issuer-url": issuer.url,
        "idp-certificate-authority-data": issuer.backend.ca_bundle,
        "client-id": "kubernetes",
        "client-secret": "s",
        "refresh-token": "r1",
        "id-token": token,
        **more,
    }
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"auth-provider": {"name": "oidc", "config": config}}}],
    }
    return from_document(document, Path("/k"))


def test_a_token_that_is_good_is_used_without_a_word_to_its_issuer(issuer: Issuer) -> None:
    token = id_token(3600)
    assert connect(issuer, token).authorization() == f"Bearer {token}"
    assert issuer.asked == []


def test_a_token_that_has_ended_is_exchanged(issuer: Issuer) -> None:
    first, second = id_token(-1, "first"), id_token(3600, "second")
    issuer.answers = [{"id_token": first, "refresh_token": "r2"}, {"id_token": second}]
    made = connect(issuer, id_token(-60))
    assert [made.authorization(), made.authorization()] == [f"Bearer {second}"] * 2
    client = "Basic " + base64.b64encode(b"kubernetes:s").decode()
    assert issuer.asked == [
        (client, {"grant_type": "refresh_token", "refresh_token": "r1", "client_id": "kubernetes"}),
        (client, {"grant_type": "refresh_token", "refresh_token": "r2", "client_id": "kubernetes"}),
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "/token: HTTP 400"),
        ({"refresh-token": ""}, "there is no refresh-token"),
        ({"idp-issuer-url": "http://127.0.0.1:1"}, "is not https"),
        ({"idp-certificate-authority-data": ""}, "CERTIFICATE_VERIFY_FAILED"),
    ],
    ids=["it is refused", "nothing to exchange", "no TLS", "another authority"],
)
def test_without_another_token_the_kubeconfig_is_refused(issuer: Issuer, more: dict[str, Any], said: str) -> None:
    with pytest.raises(KubeconfigError, match=f"/k: oidc: .*{said}"):
        connect(issuer, id_token(-60), **more)


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "a.e30.c", "", "a.bnVsbA.c"])
def test_a_token_that_does_not_say_when_it_ends_does_not(token: str) -> None:
    assert end_of(token) is None


def test_an_issuer_outside_is_asked_through_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"idp-issuer-url": "https://issuer.example/realm", "refresh-token": "r", "id-token": id_token(-60)}
    provider = OidcProvider(config, Path("/k"))
    asked: list[str] = []

    class Proxy(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked.append(self.rfile.readline().decode().strip())
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.handle_request)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
        with pytest.raises(KubeconfigFault, match="oidc: "):
            provider.renew()
        thread.join()
    assert [line.rpartition(" ")[0] for line in asked] == ["CONNECT issuer.example:443"]
