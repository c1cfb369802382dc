"""Calls to a server that is slow, away, overloaded or odd."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kvedge.kube.credentials.client_certificate import ShownCertificate
from kvedge.kube.credentials.connection_settings import from_document, from_kubeconfig
from kvedge.kube.errors import KubeError, NotFound, Unauthenticated, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.rest_edge import Call, Patience, RestEdge
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import ConfigMap
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest
from tests.support.https_backend import HttpsBackend
from tests.support.scripted_api import Exchange, ScriptedApi, a_list, listing, refusing, scripted_api, status
from tests.support.values import replace


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def client_of(api: ScriptedApi, path: Path) -> KubeClient:
    return KubeClient.from_kubeconfig(api.write_kubeconfig(path))


def a_map() -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))


def test_a_read_is_repeated_while_the_server_is_busy(kubeconfig):
    with scripted_api(refusing(503, "ServiceUnavailable"), listing("a")) as api:
        assert len(client_of(api, kubeconfig).list(ConfigMap)) == 1
        assert len(api.requests) == 2


def test_a_read_gives_up_after_three_tries(kubeconfig):
    with scripted_api(refusing(503, "ServiceUnavailable")) as api:
        with pytest.raises(Unavailable):
            client_of(api, kubeconfig).list(ConfigMap)
        assert len(api.requests) == 3


def test_a_create_is_not_repeated_as_it_may_have_been_done(kubeconfig):
    with scripted_api(refusing(500, "InternalError"), listing()) as api:
        with pytest.raises(Unavailable):
            client_of(api, kubeconfig).create(a_map())
        assert len(api.requests) == 1


def test_a_create_is_not_repeated_when_the_connection_breaks(kubeconfig):
    with scripted_api(Exchange.hang_up) as api:
        with pytest.raises(Unavailable):
            client_of(api, kubeconfig).create(a_map())
        assert len(api.requests) == 1


def test_a_create_that_the_server_turned_away_unseen_is_repeated_after_the_wait_it_asked_for(kubeconfig):
    done = a_list("a")["items"][0]

    def busy(exchange: Exchange) -> None:
        exchange.answer(429, {"kind": "Status", "code": 429, "reason": "TooManyRequests"}, Retry_After="1")

    with scripted_api(busy, lambda exchange: exchange.answer(201, done)) as api:
        begun = time.monotonic()
        assert client_of(api, kubeconfig).create(a_map()).metadata.uid == "uid-a"
        assert time.monotonic() - begun >= 1


def test_a_refusal_is_final(kubeconfig):
    with scripted_api(refusing(404, "NotFound")) as api:
        with pytest.raises(NotFound):
            client_of(api, kubeconfig).get(ConfigMap, "default", "a")
        assert len(api.requests) == 1


def test_a_server_that_does_not_answer_is_unavailable_in_time(kubeconfig):
    with scripted_api(lambda exchange: api.over.wait(20)) as api:
        begun = time.monotonic()
        with pytest.raises(Unavailable):
            client_of(api, kubeconfig).hurry(0.2).get(ConfigMap, "default", "a")
        assert time.monotonic() - begun < 15


def test_a_server_that_is_away_is_unavailable_and_says_which(kubeconfig):
    with scripted_api(listing()) as api:
        client = client_of(api, kubeconfig)
    with pytest.raises(Unavailable, match=r"GET /api/v1/configmaps") as caught:
        client.hurry(1).list(ConfigMap)
    assert caught.value.status == 0
    assert caught.value.never_sent


def test_an_answer_that_is_no_json_is_an_error(kubeconfig):
    with (
        scripted_api(lambda exchange: exchange.answer(200, b"<html>")) as api,
        pytest.raises(KubeError, match="ConfigMap from the server"),
    ):
        client_of(api, kubeconfig).get(ConfigMap, "default", "a")


def test_long_lists_are_read_page_by_page(kubeconfig):
    with scripted_api(listing("a", "b", next_page="more"), listing("c", version="9")) as api:
        found = client_of(api, kubeconfig).listing(ConfigMap)
        assert [item.metadata.name for item in found.items] == ["a", "b", "c"]
        assert found.resource_version == "9"
        assert [request.query.get("continue") for request in api.requests] == [None, "more"]


def test_an_object_that_does_not_fit_its_type_costs_only_itself(kubeconfig):
    document = a_list("a", "b")
    document["items"][0]["data"] = ["not a map"]
    with scripted_api(lambda exchange: exchange.answer(200, document)) as api:
        found = client_of(api, kubeconfig).listing(ConfigMap)
    assert [item.metadata.name for item in found.items] == ["b"]
    (unreadable,) = found.unreadable
    assert (unreadable.name, unreadable.detail) == ("a", "data: Expected `object`, got `array`")


def test_a_token_and_our_name_are_sent(kubeconfig):
    with scripted_api(listing()) as api:
        path = api.write_kubeconfig(kubeconfig, token="secret-token")
        KubeClient.from_kubeconfig(path).list(ConfigMap)
        headers = api.requests[0].headers
    assert headers["Authorization"] == "Bearer secret-token"
    assert headers["User-Agent"].startswith("kvedge/")


def test_connections_are_kept(kubeconfig):
    ports: set[int] = set()

    def script(exchange: Exchange) -> None:
        ports.add(exchange._handler.client_address[1])
        exchange.answer(200, a_list())

    with scripted_api(script) as api:
        client = client_of(api, kubeconfig)
        for _ in range(5):
            client.list(ConfigMap)
    assert len(ports) == 1


def test_as_many_watches_as_a_role_has_end_together_without_a_word(kubeconfig, caplog: pytest.LogCaptureFixture):
    def watch(exchange: Exchange) -> None:
        exchange.begin()
        exchange.say(b"{}\n")
        api.over.wait(20)

    with scripted_api(watch) as api:
        edge = RestEdge(from_kubeconfig(api.write_kubeconfig(kubeconfig)))
        streams = [edge.stream(Call("GET", "/watch"), 20) for _ in range(30)]
        following = [stream.lines() for stream in streams]
        assert [next(lines) for lines in following] == [b"{}"] * 30
        for stream, lines in zip(streams, following, strict=True):
            stream.close()
            assert list(lines) == []
        edge.close()
    assert caplog.records == []


def test_what_the_server_warns_of_is_heard(kubeconfig):
    words = '299 - "unknown field \\"spec.a\\""'
    with scripted_api(lambda exchange: exchange.answer(200, {"metadata": {"name": "a"}}, Warning=words)) as api:
        heard: list[str] = []
        connection = from_kubeconfig(api.write_kubeconfig(kubeconfig))
        KubeClient(RestEdge(connection, on_warning=heard.append)).get(ConfigMap, "default", "a")
    assert heard == ['unknown field "spec.a"']


def ended(file: str) -> ShownCertificate:
    now = datetime.now(UTC)
    request = LeafRequest("kvedge:api", life=-timedelta(hours=1))
    return ShownCertificate(CertificateAuthority.create("ca", now).issue(request, now).certificate, file)


def test_a_server_that_hangs_up_on_somebody_whose_certificate_has_ended_is_understood(kubeconfig):
    with scripted_api(Exchange.hang_up) as api:
        made = from_kubeconfig(api.write_kubeconfig(kubeconfig))
        client = KubeClient(RestEdge(replace(made, certificate=ended("roles/api"))))
        with pytest.raises(Unauthenticated, match="the certificate of kvedge:api in roles/api ended"):
            client.list(ConfigMap)
        assert len(api.requests) == 1


def test_after_a_401_the_call_is_sent_once_more_with_what_the_file_holds_now(kubeconfig):
    def renewing(exchange: Exchange) -> None:
        api.write_kubeconfig(kubeconfig, token="second")
        exchange.answer(401, status(401, "Unauthorized"))

    with scripted_api(renewing, lambda exchange: exchange.answer(201, a_list("a")["items"][0])) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(kubeconfig, token="first"))
        client.create(a_map())
        sent = [request.headers["Authorization"] for request in api.requests]
    assert sent == ["Bearer first", "Bearer second"]


def test_after_a_401_without_anything_newer_the_call_is_not_repeated(kubeconfig):
    with scripted_api(refusing(401, "Unauthorized")) as api:
        with pytest.raises(Unauthenticated):
            client_of(api, kubeconfig).list(ConfigMap)
        assert len(api.requests) == 1


def test_a_create_whose_connection_broke_is_not_sent_again_with_newer_credentials(kubeconfig):
    def renewing(exchange: Exchange) -> None:
        api.write_kubeconfig(kubeconfig, token="second")
        exchange.hang_up()

    with scripted_api(renewing, listing()) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(kubeconfig, token="first"))
        with pytest.raises(Unavailable):
            client.create(a_map())
        assert len(api.requests) == 1
        client.list(ConfigMap)
        assert api.requests[1].headers["Authorization"] == "Bearer second"


def to_server(tmp_path: Path, **cluster: Any) -> KubeClient:
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "here", "context": {"cluster": "c"}}],
    }
    return KubeClient(RestEdge(from_document(document, tmp_path / "kubeconfig")), Patience(attempts=1))


def test_a_server_may_have_another_name_in_its_certificate(tmp_path: Path) -> None:
    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"kind": "ConfigMap", "metadata": {"name": "a"}})

    backend = HttpsBackend(tmp_path, serve, "127.0.0.1", ["other.example"])
    server = {"server": f"https://127.0.0.1:{backend.start()}", "certificate-authority-data": backend.ca_bundle}
    try:
        found = to_server(tmp_path, **server, **{"tls-server-name": "other.example"}).get(ConfigMap, "default", "a")
        assert found.metadata.name == "a"
        with pytest.raises(Unavailable, match=r"certificate is not valid for '127\.0\.0\.1'"):
            to_server(tmp_path, **server).get(ConfigMap, "default", "a")
    finally:
        backend.stop()


def test_a_proxy_is_asked_for_the_server(tmp_path: Path) -> None:
    def script(exchange: Exchange) -> None:
        exchange.answer(200, {"kind": "ConfigMap", "metadata": {"name": "a"}})

    with scripted_api(script) as proxy:
        client = to_server(tmp_path, server="http://k8s.invalid:8080", **{"proxy-url": proxy.url})
        assert client.get(ConfigMap, "default", "a").metadata.name == "a"
        assert proxy.requests[0].headers["Host"] == "k8s.invalid:8080"


def test_a_proxy_is_shown_the_user_and_password_of_its_address(tmp_path: Path) -> None:
    def script(exchange: Exchange) -> None:
        exchange.answer(200, {"kind": "ConfigMap", "metadata": {"name": "a"}})

    with scripted_api(script) as proxy:
        named = proxy.url.replace("http://", "http://us%40er:pass%3Aword@")
        client = to_server(tmp_path, server="http://k8s.invalid:8080", **{"proxy-url": named})
        client.get(ConfigMap, "default", "a")
        shown = base64.b64encode(b"us@er:pass:word").decode()
        assert f"Basic {shown}" in proxy.requests[0].headers.values()
