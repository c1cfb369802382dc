"""A door in front of a server's API that answers for what it has no use for, and hands everything else on.

The conformance run points KubeVirt's tests at it, by `http2_door`. They look for Deployments and for the Pods of
virt-handler, which are none of kvedge's, run Jobs (`played_jobs`), and clear away autoscalers after each spec;
these groups are Kubernetes' own, so a CRD cannot stand in for them. The door speaks plain HTTP/1.1 on loopback and
adds the administrator's certificate to requests that bring no token.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit

import yaml

_CHUNK: Final = 65536
_HEAD_BYTES: Final = 1 << 20
_NAMESPACED: Final = r"(?:namespaces/[^/]+/)?"
# Collections that are always empty, with the kind of their list.
_EMPTY: Final = {
    r"/apis/batch/v1/jobs": ("batch/v1", "JobList"),
    rf"/apis/autoscaling/v[12]/{_NAMESPACED}horizontalpodautoscalers": (
        "autoscaling/v1",
        "HorizontalPodAutoscalerList",
    ),
    rf"/apis/apps/v1/{_NAMESPACED}deployments": ("apps/v1", "DeploymentList"),
    rf"/apis/apps/v1/{_NAMESPACED}daemonsets": ("apps/v1", "DaemonSetList"),
    r"/apis/storage.k8s.io/v1/csidrivers": ("storage.k8s.io/v1", "CSIDriverList"),
}
_MACHINES: Final = re.compile(r"/apis/kubevirt\.io/[^/]+/namespaces/[^/]+/virtualmachine(?:instance)?s")
_PODS: Final = re.compile(r"/api/v1/namespaces/[^/]+/pods")
# As the specs ask that want to know the addresses' family. Whoever waits for a changed configuration asks without the
# blanks, and would go on to forward a port of the Pod, which no box does; without a Pod there is nobody to wait for.
_HANDLERS: Final = "kubevirt.io = virt-handler"
_DEPLOYMENTS: Final = re.compile(r"/apis/apps/v1/namespaces/([^/]+)/deployments/(virt-operator|virt-exportproxy)")


class Player(Protocol):
    """Plays objects of its own behind the door; it is asked from several threads."""

    def takes(self, method: str, path: str) -> bool:
        """Whether a request is its to answer."""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Code and document of the answer."""


@dataclass(frozen=True)
class Request:
    """The head of one request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    head: bytes


@dataclass(frozen=True)
class Played:
    """What the door answers by itself; `handlers` are the Pods of virt-handler.

    With `bridge_for_masquerade` new VMs have bridge bindings where they ask for masquerade: most specs that do test
    something else. A run says so in its table, as its count is no longer that of the specs as they are. With
    `pods_once` Pods that a kubelet would start again run once, as a box has no others. Without `workloads` the server
    has Kubernetes' own, and answers for them.
    """

    handlers: Sequence[dict[str, Any]] = ()
    workloads: bool = True
    bridge_for_masquerade: bool = False
    pods_once: bool = False

    def answer(self, method: str, path: str) -> dict[str, Any] | None:
        """The answer to a request that is not the box's, or None."""
        bare = path.partition("?")[0]
        if method == "GET" and (match := _DEPLOYMENTS.fullmatch(bare)):
            return _deployment(match[1], match[2])
        if method == "GET" and _PODS.fullmatch(bare) and _selector(path) == _HANDLERS and "watch=" not in path:
            return _list("v1", "PodList", self.handlers)
        for pattern, (version, kind) in _EMPTY.items() if self.workloads else ():
            if re.fullmatch(pattern, bare):
                if method == "GET" and "watch=" not in path:
                    return _list(version, kind, ())
                if method == "DELETE":
                    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return None

    def change_of(self, method: str, path: str) -> Callable[[bytes], bytes] | None:
        """What is done to the body of such a request, if anything."""
        bare = path.partition("?")[0]
        if self.bridge_for_masquerade and method == "POST" and _MACHINES.fullmatch(bare):
            return with_bridges
        return with_one_run if self.pods_once and method == "POST" and _PODS.fullmatch(bare) else None


def with_bridges(body: bytes) -> bytes:
    """A VM or VMI whose interfaces are bridges where they were masqueraded."""
    document = json.loads(body)
    spec = document.get("spec") or {}
    spec = (spec.get("template") or {}).get("spec") or spec
    devices = (spec.get("domain") or {}).get("devices") or {}
    for interface in devices.get("interfaces") or ():
        if interface.pop("masquerade", None) is not None:
            interface["bridge"] = {}
    return json.dumps(document).encode()


def with_one_run(body: bytes) -> bytes:
    """A Pod that is never started again."""
    document = json.loads(body)
    document["spec"]["restartPolicy"] = "Never"
    return json.dumps(document).encode()


def handler_pod(namespace: str, node: str, address: str, ipv6: str = "") -> dict[str, Any]:
    """The Pod of virt-handler on a node, as KubeVirt's tests read it: where it runs, and at which addresses."""
    return {
        "metadata": {"name": f"virt-handler-{node}", "namespace": namespace, "labels": {"kubevirt.io": "virt-handler"}},
        "spec": {"nodeName": node, "hostNetwork": True, "containers": [{"name": "virt-handler", "image": "kvedge"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "hostIP": address,
            "podIP": address,
            "podIPs": [{"ip": each} for each in (address, ipv6) if each],
        },
    }


def _list(version: str, kind: str, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": list(items)}


def _selector(path: str) -> str:
    query = parse_qs(urlsplit(path).query)
    return query.get("labelSelector", [""])[0]


def _deployment(namespace: str, name: str) -> dict[str, Any]:
    labels = {"kubevirt.io": name}
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "generation": 1},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
        "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1},
    }


class PlayedFront:
    """The door; use as a context."""

    def __init__(self, kubeconfig: Path, played: Played, players: Sequence[Player] = ()) -> None:
        self._played = played
        self._players = players
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        server = urlsplit(cluster["server"])
        self._target = (server.hostname or "", server.port or 443)
        authority = _content(cluster, "certificate-authority").decode()
        self._bare = ssl.create_default_context(cadata=authority)
        self._admin = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as pem:
            for field in ("client-certificate", "client-key"):
                pem.write(_content(user, field) + b"\n")
            pem.flush()
            self._admin.load_cert_chain(pem.name)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="played-front", daemon=True)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()
        self.port = 0

    def __enter__(self) -> PlayedFront:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._answer(reader, writer)
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request = parse_head(await reader.readuntil(b"\r\n\r\n"))
            answer = self._played.answer(request.method, request.path)
            if answer is not None:
                # An unread body would make the kernel reset the connection under the answer.
                await _body(request, reader)
                writer.write(_response(200, answer))
                await writer.drain()
            elif player := self._player_of(request):
                body = await _body(request, reader)
                code, document = await asyncio.to_thread(player.answer, request.method, request.path, body)
                writer.write(_response(code, document))
                await writer.drain()
            else:
                await self._hand_on(request, reader, writer)

    def _player_of(self, request: Request) -> Player | None:
        return next((each for each in self._players if each.takes(request.method, request.path)), None)

    async def _hand_on(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = self._bare if "authorization" in request.headers else self._admin
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._target, ssl=context)
        try:
            if change := self._played.change_of(request.method, request.path):
                body = change(await _body(request, reader))
                upstream_writer.write(one_request_head(request, len(body)) + body)
            else:
                upstream_writer.write(one_request_head(request))
            ways = [
                asyncio.ensure_future(_pump(reader, upstream_writer)),
                asyncio.ensure_future(relay_answer(upstream_reader, writer, is_watch="watch=" in request.path)),
            ]
            # Whichever side goes first, nothing that the other still says reaches anybody.
            _, unfinished = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in unfinished:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            upstream_writer.close()


def parse_head(head: bytes) -> Request:
    """Read a request's head."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return Request(method, path, {name.strip().lower(): value.strip() for name, _, value in pairs}, head)


def one_request_head(request: Request, length: int | None = None) -> bytes:
    """The head with which the box closes the connection after its answer, unless the request upgrades it.

    `length` is that of another body than the one that came.
    """
    if "upgrade" in request.headers:
        return request.head
    lines = request.head.rstrip(b"\r\n").split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    if length is not None:
        kept = [line for line in kept if not line.lower().startswith(b"content-length:")]
        kept.append(f"Content-Length: {length}".encode())
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


def _content(entry: Mapping[str, str], field: str) -> bytes:
    """What an entry of a kubeconfig holds itself, or has in a file."""
    data = entry.get(f"{field}-data")
    return base64.b64decode(data) if data else Path(entry[field]).read_bytes()


def _response(code: int, answer: dict[str, Any]) -> bytes:
    body = json.dumps(answer).encode()
    status = HTTPStatus(code)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _body(request: Request, reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int(request.headers.get("content-length", 0)))


async def relay_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_watch: bool) -> None:
    """Hand on an answer as it comes; a watch also begins with an empty line.

    nginx tells an HTTP/2 client of an answer when its body begins, and a watch without events has none for long.
    """
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        if is_watch:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(head + (b"1\r\n\n\r\n" if b"transfer-encoding: chunked" in head.lower() else b""))
        await _pump(reader, writer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
