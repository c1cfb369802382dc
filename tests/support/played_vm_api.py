"""An API that keeps objects, exports the disks of files, and takes uploads: what the verbs of VMs as files talk to."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kvedge.resources.codec import JsonObject
from kvedge.storage.imports.sinks.qcow2_stream import Qcow2Stream
from kvedge.storage.qcow2_header import HEADER_SIZE, check_qcow2_header
from tests.support.certificate_files import FileAuthority
from tests.support.played_exports import PlayedExports
from tests.support.scripted_api import Exchange

NAMESPACE = "/namespaces/default"
VMS = f"/apis/kubevirt.io/v1{NAMESPACE}/virtualmachines"
VMIS = f"/apis/kubevirt.io/v1{NAMESPACE}/virtualmachineinstances"
DVS = f"/apis/cdi.kubevirt.io/v1beta1{NAMESPACE}/datavolumes"
CLAIMS = f"/api/v1{NAMESPACE}/persistentvolumeclaims"
SECRETS = f"/api/v1{NAMESPACE}/secrets"
EXPORTS = f"/apis/export.kubevirt.io/v1{NAMESPACE}/virtualmachineexports"
SNAPSHOTS = f"/apis/snapshot.kubevirt.io/v1beta1{NAMESPACE}/virtualmachinesnapshots"
CONTENTS = f"/apis/snapshot.kubevirt.io/v1beta1{NAMESPACE}/virtualmachinesnapshotcontents"


LISTS = ("virtualmachines", "resourcequotas", "virtualmachinesnapshots", "persistentvolumes")


class PlayedApi:
    """Objects by their paths; `refused` are paths whose POST fails."""

    def __init__(self, exports: PlayedExports) -> None:
        self.exports = exports
        self.objects: dict[str, JsonObject] = {}
        self.posts: list[tuple[str, JsonObject]] = []
        self.dry_runs: list[str] = []
        self.deleted: list[str] = []
        self.refused: set[str] = set()
        self.proxy_url = ""
        self.proxy_ca = ""
        # What the status of an export is, instead of Ready.
        self.export_status: JsonObject | None = None
        self.starts_when_exported = False
        self.images: dict[str, bytes] = {}

    def answer(self, exchange: Exchange) -> None:
        request = exchange.request
        path = request.path
        if request.method == "GET":
            self._get(exchange, path)
        elif request.method == "POST":
            self._post(exchange, path, json.loads(request.body), dry_run="dryRun" in request.query)
        elif request.method == "PATCH":
            self.objects[path]["metadata"] |= json.loads(request.body)["metadata"]
            exchange.answer(200, self.objects[path])
        elif path in self.objects:
            del self.objects[path]
            self.deleted.append(path)
            self.objects.pop(path.replace(DVS, CLAIMS), None)
            self._collect(path.rpartition("/")[2])
            exchange.answer(200, {"kind": "Status", "status": "Success"})
        else:
            self._refuse(exchange, 404, "NotFound")

    def _collect(self, owner: str) -> None:
        """What belonged to an object goes with it."""
        for path, item in list(self.objects.items()):
            if any(each["name"] == owner for each in item.get("metadata", {}).get("ownerReferences") or ()):
                del self.objects[path]

    def _get(self, exchange: Exchange, path: str) -> None:
        if path == "/apis/export.kubevirt.io":
            exchange.answer(200, {"preferredVersion": {"version": "v1"}})
        elif path.endswith("/cdiconfigs/config"):
            exchange.answer(200, {"status": {"uploadProxyURL": self.proxy_url, "uploadProxyCA": self.proxy_ca}})
        elif path in self.objects:
            exchange.answer(200, self.objects[path])
        elif path.rpartition("/")[2] in LISTS:
            kinds = path.rpartition("/")[2]
            items = [item for key, item in self.objects.items() if key.rpartition("/")[0].endswith(f"/{kinds}")]
            exchange.answer(200, {"items": items, "metadata": {}})
        else:
            self._refuse(exchange, 404, "NotFound")

    def _post(self, exchange: Exchange, path: str, document: JsonObject, *, dry_run: bool) -> None:
        if path.endswith("/uploadtokenrequests"):
            exchange.answer(201, {"status": {"token": document["spec"]["pvcName"]}})
            return
        if path in self.refused:
            self._refuse(exchange, 403, "Forbidden")
            return
        name = document["metadata"]["name"]
        if f"{path}/{name}" in self.objects:
            self._refuse(exchange, 409, "AlreadyExists")
            return
        document["metadata"]["uid"] = f"uid-of-{name}"
        if dry_run:
            self.dry_runs.append(path)
            exchange.answer(201, document)
            return
        self.posts.append((path, json.loads(json.dumps(document))))
        if texts := document.pop("stringData", None):
            document["data"] = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        self.objects[f"{path}/{name}"] = document
        if path == EXPORTS:
            document["status"] = self.export_status or self._link(name, document["spec"]["source"])
            if self.starts_when_exported:
                self.objects[f"{VMIS}/web"] = {"metadata": {}, "spec": {}, "status": {"phase": "Running"}}
        if path == DVS:
            document["status"] = {"phase": "UploadReady"}
        if path == SNAPSHOTS:
            self._take_snapshot(name, document)
        exchange.answer(201, document)

    def _link(self, export: str, source: JsonObject) -> JsonObject:
        prefix = f"{export}-" if source["kind"] == "VirtualMachineSnapshot" else ""
        volumes = [
            {
                "name": f"{prefix}{path.split('/')[2]}",
                "formats": [{"format": "raw", "url": self.exports.url(path)}, {"format": "gzip", "url": "https://x/"}],
            }
            for path in self.exports.files
        ]
        return {"phase": "Ready", "links": {"internal": {"cert": self.exports.ca, "volumes": volumes}}}

    def _take_snapshot(self, name: str, document: JsonObject) -> None:
        vm = self.objects[f"{VMS}/{document['spec']['source']['name']}"]
        document["status"] = {"readyToUse": True, "virtualMachineSnapshotContentName": f"content-{name}"}
        content = {"spec": {"source": {"virtualMachine": vm}}}
        self.objects[f"{CONTENTS}/content-{name}"] = {"metadata": {"name": f"content-{name}"}, **content}

    def take(self, claim: str, image: bytes) -> None:
        """An upload came to its end."""
        self.images[claim] = image
        said = {"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}
        self.objects[f"{CLAIMS}/{claim}"] = {"metadata": {"name": claim, "annotations": said}}

    def _refuse(self, exchange: Exchange, status: int, reason: str) -> None:
        exchange.answer(status, {"kind": "Status", "reason": reason, "message": f"refused: {reason}"})


class _Proxy(BaseHTTPRequestHandler):
    # The kernel would hold a body back until the client has acknowledged the head: 0.04 s each time.
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"
    api: PlayedApi

    def do_HEAD(self) -> None:
        self._answer(200)

    def do_POST(self) -> None:
        claim = self.headers["Authorization"].removeprefix("Bearer ")
        self.api.take(claim, self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def played_proxy(directory: Path, api: PlayedApi) -> Iterator[None]:
    """An upload proxy of that API."""
    authority = FileAuthority(directory, "proxy-ca")
    pair = authority.issue("proxy", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Proxy", (_Proxy,), {"api": api}))
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    api.proxy_url, api.proxy_ca = f"https://127.0.0.1:{server.socket.getsockname()[1]}", authority.ca.read_text()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="played-proxy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def disk_of(image: bytes) -> bytes:
    """The disk in a qcow2 that was sent, as the worker takes it."""
    header = check_qcow2_header(image[:HEADER_SIZE])
    disk = bytearray(header.virtual_size)

    def write(place: int, data: bytes) -> None:
        disk[place : place + len(data)] = data

    stream = Qcow2Stream(header, write)
    stream.feed(image)
    stream.end()
    return bytes(disk)
