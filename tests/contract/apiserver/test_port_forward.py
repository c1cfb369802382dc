"""pods/portforward at the API: kubectl's own way to a port of a Pod, who is let through, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.request
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.apiserver.routes.forwarding import forward_routes, forward_tunnel
from kvedge.standalone.apiserver.routes.forwarding.forward_source import NoForward
from kvedge.standalone.apiserver.wire.spdy_frames import DICTIONARY
from tests.contract.apiserver.conftest import load_pair
from tests.support.api_client import ApiClient
from tests.support.raw_websocket import RawWebSocket, UpgradeRefused

pytestmark = pytest.mark.contract
PODS = "/api/v1/namespaces/default/pods"
FORWARD = f"{PODS}/p/portforward"
LARGE = bytes(range(256)) * 8192


class Answers(BaseHTTPRequestHandler):
    """A server in the Pod."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(LARGE)

    def do_POST(self) -> None:
        taken = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(zlib.crc32(taken)).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class OwnNetwork:
    """An agent whose Pods have this test's network."""

    def __init__(self) -> None:
        self.opened: list[socket.socket] = []

    def open_socket(self, pod_uid: str, family: socket.AddressFamily) -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        self.opened.append(made)
        return made


class NoNetwork(OwnNetwork):
    def open_socket(self, pod_uid: str, family: socket.AddressFamily) -> socket.socket:
        raise NoForward("the pod has no network on this box")


class Box:
    def __init__(self, directory: Path, network: OwnNetwork) -> None:
        self.network = network
        config = ApiServerConfig(directory, port=0, node_name="box")
        self._api = EmbeddedApi(config, forward_source=network)
        self._directory = directory
        self._api.start()
        self.url = self._api.address
        self.admin = ApiClient(self.url, self.context("admin", "system:masters"))
        self.kubeconfig = directory / "kubeconfig"
        self._api.write_kubeconfig(self.kubeconfig, "admin", ("system:masters",))
        for name, more in (("p", {}), ("waits", {}), ("hosts", {"hostNetwork": True})):
            spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}], **more}
            made = self.admin.made(PODS, {"metadata": {"name": name}, "spec": spec})
            if name != "waits":
                made["status"]["phase"] = "Running"
                assert self.admin.ask("PUT", f"{PODS}/{name}/status", made).status == 200

    def context(self, user: str, *groups: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._api.pki.servers.certificate_pem.decode())
        pair = self._api.pki.clients.issue_client(Subject(user, groups))
        load_pair(context, self._directory, pair.certificate, pair.key)
        return context

    def stop(self) -> None:
        self.admin.close()
        self._api.stop()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path, OwnNetwork())
    yield made
    made.stop()


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


# By which kubectl reaches the port: a websocket, and SPDY as it was before 1.31.
BY_WEBSOCKET, BY_SPDY = "true", "false"
by_both = pytest.mark.parametrize("websockets", [BY_WEBSOCKET, BY_SPDY], ids=["websocket", "SPDY"])


@contextlib.contextmanager
def kubectl(
    box: Box, pod: str, *ports: str, websockets: str = BY_WEBSOCKET
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`kubectl port-forward`, and the first line that it prints."""
    command = ["kubectl", "--kubeconfig", str(box.kubeconfig), "port-forward", f"pod/{pod}", *ports]
    environment = {**os.environ, "KUBECTL_PORT_FORWARD_WEBSOCKETS": websockets}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": environment}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")


@needs_kubectl
@by_both
def test_kubectl_reaches_a_port_of_a_pod(box: Box, port: int, websockets: str) -> None:
    with kubectl(box, "p", f":{port}", websockets=websockets) as (_, told):
        assert "Forwarding from 127.0.0.1:" in told, told
        local = told.split()[2].rpartition(":")[2]
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=30) as answer:
                assert answer.read() == LARGE
        with urllib.request.urlopen(f"http://127.0.0.1:{local}/", LARGE, timeout=30) as answer:
            assert answer.read() == str(zlib.crc32(LARGE)).encode()
    assert len(box.network.opened) >= 4


@needs_kubectl
@by_both
def test_a_port_at_which_nobody_listens_is_told_with_its_pod(box: Box, websockets: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        free = held.getsockname()[1]
    with kubectl(box, "p", f":{free}", websockets=websockets) as (process, told):
        local = told.split()[2].rpartition(":")[2]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(local)), 10) as client:
            client.recv(1)
        lines = [process.stdout.readline() for _ in range(3)]
    assert any(f"error forwarding port {free} to pod p: Connection refused" in line for line in lines), lines


@needs_kubectl
def test_a_pod_without_a_network_says_so(tmp_path: Path) -> None:
    box = Box(tmp_path, NoNetwork())
    with kubectl(box, "p", ":80") as (process, told):
        local = told.split()[2].rpartition(":")[2]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(local)), 10) as client:
            client.recv(1)
        lines = [process.stdout.readline() for _ in range(3)]
    box.stop()
    assert any("the pod has no network on this box" in line for line in lines), lines


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("p", 400, "to a websocket or SPDY/3.1"),
        ("waits", 400, "pod is not running. Current status=Pending"),
        ("hosts", 400, "spec.hostNetwork"),
        ("none", 404, "not found"),
    ],
)
def test_what_cannot_be_forwarded_is_refused(box: Box, name: str, status: int, words: str) -> None:
    for method in ("GET", "POST"):
        answer = box.admin.ask(method, f"{PODS}/{name}/portforward")
        assert (answer.status, words in answer.message) == (status, True), answer.body


def open_tunnel(box: Box, user: str = "admin", *groups: str) -> asyncio.Future[RawWebSocket]:
    context = box.context(user, *(groups or ("system:masters",)))
    return asyncio.ensure_future(RawWebSocket.open(f"{box.url}{FORWARD}", context, forward_routes.PROTOCOL))


def test_who_may_only_read_gets_no_port(box: Box) -> None:
    async def run() -> None:
        with pytest.raises(UpgradeRefused, match="403"):
            await open_tunnel(box, "reader", "readers")

    role = {"metadata": {"name": "read"}, "rules": [{"apiGroups": [""], "resources": ["pods/*"], "verbs": ["get"]}]}
    box.admin.made("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "read"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}
    binding = {"metadata": {"name": "read"}, "roleRef": reference, "subjects": [subject]}
    box.admin.made("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    asyncio.run(run())


def test_so_many_tunnels_of_one_user_and_what_is_no_spdy_ends_its_own(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_routes, "_MOST_OF_ONE", 1)

    async def run() -> None:
        tunnel = await open_tunnel(box)
        assert tunnel.protocol == forward_routes.PROTOCOL
        with pytest.raises(UpgradeRefused, match="429"):
            await open_tunnel(box)
        tunnel.send(b"\x80\x09\x00\x01\x00\x00\x00\x00")
        code, reason, _ = await tunnel.receive_close()
        tunnel.vanish()
        assert (code, reason) == (1002, "version 9")

    asyncio.run(run())


def opening(stream: int, kind: str, port: str, number: str, compress: zlib._Compress) -> bytes:
    pairs = {"streamtype": kind, "port": port, "requestid": number}
    block = len(pairs).to_bytes(4)
    for text in (text for pair in pairs.items() for text in pair):
        block += len(text).to_bytes(4) + text.encode()
    packed = compress.compress(block) + compress.flush(zlib.Z_SYNC_FLUSH)
    body = stream.to_bytes(4) + bytes(6) + packed
    return b"\x80\x03\x00\x01" + len(body).to_bytes(4) + body


def test_so_many_connections_in_one_tunnel_and_none_without_its_stream_for_errors(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_tunnel, "MOST_CONNECTIONS", 1)

    async def run() -> None:
        tunnel = await open_tunnel(box)
        compress = zlib.compressobj(zdict=DICTIONARY)
        for stream, kind, port in ((1, "data", "80"), (3, "error", "0"), (5, "error", "80"), (7, "error", "80")):
            tunnel.send(opening(stream, kind, port, str(stream), compress))
            answer = await tunnel.receive_data()
            assert answer[:4] == (b"\x80\x03\x00\x02" if stream == 5 else b"\x80\x03\x00\x03")[:4], stream
            assert int.from_bytes(answer[8:12]) == stream
        tunnel.vanish()

    asyncio.run(run())
