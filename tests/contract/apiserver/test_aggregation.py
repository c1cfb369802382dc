"""Another API server behind an APIService: who it is told is calling, streams, and what is said when it is not
there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.test_discovery import _AGGREGATED
from tests.support.api_client import ApiClient, eventually
from tests.support.https_backend import HttpsBackend
from tests.support.kube_apiserver import reachable_address
from tests.support.raw_http import RawHttp, received
from tests.support.raw_websocket import BINARY, CLOSE, RawWebSocket

pytestmark = pytest.mark.contract

_GROUP = "agg.example.com"
_BASE = f"/apis/{_GROUP}/v1"
_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
# At most so many connections are the API server's own, kept for its next question.
_OWN_CONNECTIONS = 8
_RESOURCES = [
    {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get", "list"]},
    {"name": "things/console", "singularName": "", "namespaced": True, "kind": "Thing", "verbs": ["get"]},
]


_HEARD: list[tuple[str, str, str]] = []


async def serve(request: web.BaseRequest) -> web.StreamResponse:
    """An API server with one resource: it repeats what it was told, and its console repeats what it hears."""
    _HEARD.append((request.method, request.path, request.headers.get("X-Remote-User", "")))
    if request.path == _BASE:
        document = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{_GROUP}/v1"}
        return web.json_response({**document, "resources": _RESOURCES})
    if request.path == "/openapi/v2":
        return web.json_response({"swagger": "2.0", "paths": {f"{_BASE}/things": {"get": {"operationId": "things"}}}})
    if request.path.endswith("/console"):
        socket = web.WebSocketResponse(protocols=["plain.example.com"])
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(b"you said " + message.data)
            if message.data == b"bye":
                await socket.close()
        return socket
    if request.path.endswith("/busy"):
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not now", "code": 409}
        return web.json_response(status, status=409)
    subject = dict(pair for part in (request.get_extra_info("peercert") or {}).get("subject", ()) for pair in part)
    return web.json_response(
        {
            "method": request.method,
            "path": request.path_qs,
            "headers": [[name, value] for name, value in request.headers.items()],
            "body": (await request.read()).decode(),
            "proxy": subject.get("commonName", ""),
        },
        status=202 if request.method == "PUT" else 200,
    )


@pytest.fixture(scope="module")
def aggregated(api_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsBackend]:
    """The other API server, registered and available."""
    admin = api_server.admin
    config = admin.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").json["data"]
    address = reachable_address()
    backend = HttpsBackend(
        tmp_path_factory.mktemp("aggregated"),
        serve,
        "0.0.0.0",
        [address, "agg.default.svc"],
        config["requestheader-client-ca-file"].encode(),
    )
    port = backend.start()
    for path, body in objects(backend, address, port).items():
        admin.made(path, body)
    eventually(lambda: condition(admin)[0] == "True", 30)
    yield backend
    backend.stop()
    for path, body in objects(backend, address, port).items():
        admin.delete(f"{path}/{body['metadata']['name']}")


def objects(backend: HttpsBackend, address: str, port: int) -> dict[str, dict[str, Any]]:
    """What registers the other server, by the path where it is created."""
    core = "/api/v1/namespaces/default"
    return {
        f"{core}/services": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "agg"},
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        },
        f"{core}/endpoints": {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": "agg"},
            "subsets": [{"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port}]}],
        },
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "agg-1", "labels": {"kubernetes.io/service-name": "agg"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
        _SERVICES: {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "version": "v1",
                "service": {"namespace": "default", "name": "agg"},
                "caBundle": backend.ca_bundle,
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
            },
        },
    }


def condition(admin: ApiClient, name: str = f"v1.{_GROUP}") -> tuple[str, str]:
    """The status and the reason of an APIService's Available condition."""
    conditions = (admin.get(f"{_SERVICES}/{name}").json.get("status") or {}).get("conditions") or [{}]
    return conditions[0].get("status", ""), conditions[0].get("reason", "")


def heard(answer: dict[str, Any], name: str) -> list[str]:
    """The values that the other server got for a header."""
    return [value for key, value in answer["headers"] if key.lower() == name.lower()]


def test_the_other_server_is_told_who_is_calling(admin: ApiClient, aggregated: HttpsBackend) -> None:
    assert condition(admin) == ("True", "Passed")
    told = admin.get(f"{_BASE}/namespaces/default/things/a", pretty="true").json
    assert told["path"] == f"{_BASE}/namespaces/default/things/a?pretty=true"
    assert told["proxy"] == "front-proxy-client"
    assert heard(told, "X-Remote-User") == ["admin"]
    assert sorted(heard(told, "X-Remote-Group")) == ["system:authenticated", "system:masters"]


def test_nobody_can_pass_themselves_off_as_somebody_else(api_server: Server, aggregated: HttpsBackend) -> None:
    forged = {"X-Remote-User": "system:admin", "X-Remote-Group": "other", "X-Remote-Extra-Key": "x"}
    url = f"{api_server.url}{_BASE}/namespaces/default/things/a"
    told = json.loads(api_server.admin.pool.request("GET", url, headers=forged).data)
    assert heard(told, "X-Remote-User") == ["admin"]
    assert "other" not in heard(told, "X-Remote-Group")
    assert heard(told, "X-Remote-Extra-Key") == []


def packed(payload: bytes, padding: int) -> bytes:
    """A gzip file that is longer than what is in it: its header has a field of so many bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = packer.compress(payload) + packer.flush()
    head = b"\x1f\x8b\x08\x04" + bytes(4) + b"\0\xff" + struct.pack("<H", padding) + bytes(padding)
    return head + data + struct.pack("<II", zlib.crc32(payload), len(payload))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
def test_no_body_becomes_a_request_of_somebody_else(
    api_server: Server, aggregated: HttpsBackend, encoding: str
) -> None:
    _HEARD.clear()
    mallory = RawHttp(api_server.url, api_server.log_in("mallory", []).context)
    smuggled = b"PUT /smuggled HTTP/1.1\r\nHost: x\r\nX-Remote-User: admin\r\nContent-Length: 0\r\n\r\n"
    # The first would leave the other server waiting for bytes, the second bring them.
    for body in (packed(packed(b"", 60000)[:12], 600), b"\r\n" * 300 + smuggled):
        head = f"GET {_BASE} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        head += f"Content-Encoding: {encoding}\r\n" if body.startswith(b"\x1f") else ""
        with contextlib.closing(mallory.secure(10.0)) as connection:
            connection.sendall(f"{head}\r\n".encode() + body)
            received(connection)
    assert ("GET", _BASE, "mallory") in _HEARD
    assert [each for each in _HEARD if "smuggled" in each[1]] == []
    # Nobody else's connection is left with what mallory did not say.
    assert api_server.admin.get(f"{_BASE}/namespaces/default/things/a").status == 200


def test_a_packed_body_is_passed_on_as_it_came(api_server: Server, aggregated: HttpsBackend) -> None:
    url = f"{api_server.url}{_BASE}/namespaces/default/things/a/start"
    headers = {"Content-Encoding": "gzip"}
    answer = api_server.admin.pool.request("PUT", url, headers=headers, body=gzip.compress(b"plain"))
    told = json.loads(answer.data)
    assert heard(told, "Content-Encoding") == ["gzip"]
    assert told["body"] == "plain"


def test_bodies_and_status_codes_pass(admin: ApiClient, aggregated: HttpsBackend) -> None:
    answer = admin.put(f"{_BASE}/namespaces/default/things/a/start", {"paused": True})
    assert answer.status == 202
    assert json.loads(answer.json["body"]) == {"paused": True}
    assert admin.get(f"{_BASE}/namespaces/default/things/a/busy").status == 409


def test_the_other_group_is_discovered(admin: ApiClient, aggregated: HttpsBackend) -> None:
    groups = {item["name"] for item in admin.get("/apis").json["groups"]}
    assert _GROUP in groups
    assert admin.get(f"/apis/{_GROUP}").json["preferredVersion"]["version"] == "v1"
    assert admin.get(_BASE).json["resources"][0]["name"] == "things"

    def things() -> dict[str, Any]:
        items = admin.get("/apis", accept=_AGGREGATED).json["items"]
        mine = [item for item in items if item["metadata"]["name"] == _GROUP]
        resources = [entry for item in mine for entry in item["versions"][0].get("resources") or ()]
        return resources[0] if resources else {}

    found = eventually(things)
    assert found["resource"] == "things"
    assert found["scope"] == "Namespaced"
    assert [sub["subresource"] for sub in found["subresources"]] == ["console"]


def test_who_may_not_is_stopped_before_the_other_server(api_server: Server, aggregated: HttpsBackend) -> None:
    joe = api_server.log_in("joe", [])
    answer = joe.get(f"{_BASE}/namespaces/default/things/a/console")
    assert answer.status == 403
    assert 'cannot get resource "things/console" in API group "agg.example.com"' in answer.message
    joe.close()


def console(api_server: Server) -> str:
    """The URL of the other server's console."""
    return f"{api_server.url}{_BASE}/namespaces/default/things/a/console"


def test_a_websocket_goes_through(api_server: Server, aggregated: HttpsBackend) -> None:
    async def talk() -> tuple[str, list[tuple[int, bytes]]]:
        socket = await RawWebSocket.open(console(api_server), api_server.admin.context, "plain.example.com")
        try:
            answers = []
            for text in (b"hello", b"x" * 300_000, b"bye"):
                socket.send(text)
                answers.append(await socket.receive())
            answers.append(await socket.receive())
            return socket.protocol, answers
        finally:
            socket.vanish()

    protocol, answers = asyncio.run(talk())
    assert protocol == "plain.example.com"
    said = [b"you said hello", b"you said " + b"x" * 300_000, b"you said bye"]
    assert answers[:3] == [(BINARY, text) for text in said]
    assert answers[3][0] == CLOSE


def test_a_refused_upgrade_says_why(api_server: Server, aggregated: HttpsBackend) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    url = f"{api_server.url}{_BASE}/namespaces/default/things/a/busy"
    answer = api_server.admin.pool.request("GET", url, headers=headers)
    assert answer.status == 409
    assert json.loads(answer.data)["message"] == "not now"


def test_clients_that_vanish_leave_no_connection_behind(api_server: Server, aggregated: HttpsBackend) -> None:
    async def one() -> tuple[int, bytes]:
        socket = await RawWebSocket.open(console(api_server), api_server.admin.context)
        try:
            socket.send(b"hi")
            return await socket.receive()
        finally:
            socket.vanish()

    async def many() -> list[tuple[int, bytes]]:
        answers: list[tuple[int, bytes]] = []
        for _ in range(5):
            answers += await asyncio.gather(*(one() for _ in range(20)))
        return answers

    before = aggregated.open_connections()
    assert asyncio.run(many()) == [(BINARY, b"you said hi")] * 100
    eventually(lambda: aggregated.open_requests() == 0)
    # What is left over waits for other requests: the API server itself asks for health, discovery and OpenAPI.
    eventually(lambda: aggregated.open_connections() <= before + _OWN_CONNECTIONS)


def test_a_server_that_is_not_there_is_unavailable(admin: ApiClient) -> None:
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.gone.example.com"},
        "spec": {
            "group": "gone.example.com",
            "version": "v1",
            "service": {"namespace": "default", "name": "nobody"},
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": True,
        },
    }
    admin.made(_SERVICES, body)
    try:
        eventually(lambda: condition(admin, "v1.gone.example.com") == ("False", "ServiceNotFound"))
        assert eventually(lambda: admin.get("/apis/gone.example.com/v1/x").status == 503)
    finally:
        admin.delete(f"{_SERVICES}/v1.gone.example.com")
    eventually(lambda: admin.get("/apis/gone.example.com/v1/x").status == 404)


def test_an_api_service_that_makes_no_sense_is_refused(admin: ApiClient) -> None:
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v2.wrong.example.com"},
        "spec": {"group": "wrong.example.com", "version": "v1", "groupPriorityMinimum": 0, "versionPriority": 15},
    }
    answer = admin.post(_SERVICES, body)
    assert answer.status == 422
    assert {"metadata.name", "spec.groupPriorityMinimum"} <= {cause["field"] for cause in answer.causes}


def test_its_paths_are_in_the_openapi_document_while_it_answers(api_server: Server, aggregated: HttpsBackend) -> None:
    def described() -> bool:
        return f"{_BASE}/things" in api_server.admin.get("/openapi/v2").json["paths"]

    eventually(described, 30)
    assert f"apis/{_GROUP}/v1" not in api_server.admin.get("/openapi/v3").json["paths"], "it has none of that version"
    service = f"{_SERVICES}/v1.{_GROUP}"
    document = api_server.admin.get(service).json
    api_server.admin.delete(service)
    eventually(lambda: not described(), 30)
    del document["metadata"]["resourceVersion"], document["metadata"]["uid"]
    api_server.admin.made(_SERVICES, document)
    eventually(described, 30)
