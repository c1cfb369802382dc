"""Exports on both servers: what enters, and the proxy before a real exporter, for an unmodified virtctl as well."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.api.exports import export_proxy
from kvedge.api.exports.export_proxy import ExportProxy
from kvedge.api.exports.export_rules import MOST_OF_ONE
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.codec import JsonObject, encode_json
from kvedge.resources.disks.exports import outside_path, server_name
from kvedge.resources.disks.uploads import UPLOAD_AUTHORITY_SECRET
from kvedge.resources.types.protection import export_job
from kvedge.resources.types.protection.export_job import ExportJob, ExportManifests, ServedVolume
from kvedge.runtime.clock import SystemClock
from kvedge.runtime.tls.certificates import LeafRequest
from kvedge.storage.exports.export_answers import ExportAnswers, Places
from kvedge.storage.exports.export_server import ExportServer, export_tls
from kvedge.storage.exports.exported_disk import ExportedDisk
from kvedge.storage.exports.gzip_stream import Compressor
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import pod_document
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
_NAMESPACE = "/api/v1/namespaces/default"
_EXPORTS = "/apis/export.kubevirt.io/v1/namespaces/default/virtualmachineexports"
MERGE = "application/merge-patch+json"
TOKEN = "abcdefghij0123456789"
BASE = outside_path("default", "out")
DISK = os.urandom(5 << 20) + bytes(3 << 20)
SOURCE = {"apiGroup": "", "kind": "PersistentVolumeClaim", "name": "disk"}


@dataclass
class Exporter:
    """A real exporter of the export `out`, and the address of the proxy before it."""

    host: str
    port: int
    ca: str

    def ask(
        self, path: str, method: str = "GET", token: str = TOKEN, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        context = ssl.create_default_context(cadata=self.ca)
        context.check_hostname = False
        connection = http.client.HTTPSConnection(self.host, self.port, context=context, timeout=200)
        try:
            connection.request(method, path, headers={"x-kubevirt-export-token": token, **headers})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


@pytest.fixture
def exporter(
    admin: KubeClient, api_role: ApiRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Exporter]:
    export = admin.request("POST", _EXPORTS, an_export("out", SOURCE, tokenSecretRef="out-token"))
    secret = {"metadata": {"name": "out-token"}, "stringData": {"token": TOKEN}}
    admin.request("POST", f"{_NAMESPACE}/secrets", secret)
    monkeypatch.setattr(export_job, "_DIRECTORIES", str(tmp_path / "exports"))
    server = make_server(admin, export["metadata"]["uid"], tmp_path)
    server.start()
    monkeypatch.setattr(ExportProxy, "port", server.port)
    made = pod_document({"name": "exporter", "image": "none"}, metadata={"name": "virt-export-out"})
    admin.request("POST", f"{_NAMESPACE}/pods", made)
    where = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    admin.request("PATCH", f"{_NAMESPACE}/pods/virt-export-out/status", {"status": where}, None, MERGE)
    ca = api_role_ca(admin)
    found = Exporter(api_role.endpoint.address, api_role.endpoint.port, ca)
    report(admin, found, "Ready")
    yield found
    server.stop()
    admin.request("DELETE", f"{_NAMESPACE}/pods/virt-export-out", query={"gracePeriodSeconds": "0"})
    remove(admin, f"{_NAMESPACE}/secrets/out-token")
    remove(admin, f"{_EXPORTS}/out")


def an_export(name: str, source: JsonObject, version: str = "v1", **spec: Any) -> JsonObject:
    kind = {"apiVersion": f"export.kubevirt.io/{version}", "kind": "VirtualMachineExport"}
    return {**kind, "metadata": {"name": name}, "spec": {"source": source, **spec}}


def api_role_ca(admin: KubeClient) -> str:
    found = admin.request("GET", "/api/v1/namespaces/kvedge-system/configmaps/kvedge-upload-proxy")
    return str(found["data"]["ca.crt"])


def make_server(admin: KubeClient, uid: str, place: Path) -> ExportServer:
    (place / "exports" / "0").mkdir(parents=True)
    (place / "exports" / "0" / "disk.img").write_bytes(DISK)
    (place / "token").write_text(TOKEN)
    vm = {"kind": "VirtualMachine", "metadata": {"name": "web"}}
    source = {"spec": {"source": {"http": {"url": "/volumes/disk/disk.img.gz"}}}}
    documents = ExportManifests(virtual_machine=vm, data_volumes=[source], base="https://inside", ca="PEM")
    (place / "manifests").write_bytes(gzip.compress(encode_json(documents)))
    authority, name = existing_authority(admin, UPLOAD_AUTHORITY_SECRET), server_name(uid)
    request = LeafRequest(name, hosts=[name], client=False, life=timedelta(days=1))
    material = authority.issue(request, SystemClock().now())
    (place / "tls.crt").write_bytes(material.certificate)
    (place / "tls.key").write_bytes(material.key)
    job = ExportJob(name="out", volumes=[ServedVolume(name="disk")])
    answers = ExportAnswers(job, Places(place / "token", place / "manifests"), Compressor(1))
    return ExportServer(answers, export_tls(place), "127.0.0.1", 0)


def report(admin: KubeClient, at: Exporter, phase: str) -> None:
    """What the controller says of the export."""
    base = f"https://{at.host}:{at.port}{BASE}"
    forms = [("raw", "disk.img"), ("gzip", "disk.img.gz")]
    formats = [{"format": name, "url": f"{base}/volumes/disk/{form}"} for name, form in forms]
    manifests = [
        {"type": "all", "url": f"{base}/external/manifests/all"},
        {"type": "auth-header-secret", "url": f"{base}/external/manifests/secret"},
    ]
    link = {"cert": at.ca, "volumes": [{"name": "disk", "formats": formats}], "manifests": manifests}
    status = {"phase": phase, "tokenSecretRef": "out-token", "links": {"external": link}}
    admin.request("PATCH", f"{_EXPORTS}/out/status", {"status": status}, None, MERGE)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_disk_comes_whole_in_parts_and_packed(exporter: Exporter) -> None:
    status, headers, body = exporter.ask(f"{BASE}/volumes/disk/disk.img")
    assert (status, headers["Content-Length"], digest(body)) == (200, str(len(DISK)), digest(DISK))
    status, headers, body = exporter.ask(f"{BASE}/volumes/disk/disk.img", Range="bytes=7-9")
    assert (status, headers["Content-Range"], body) == (206, f"bytes 7-9/{len(DISK)}", DISK[7:10])
    status, headers, body = exporter.ask(f"{BASE}/volumes/disk/disk.img", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(len(DISK)), b"")
    assert gzip.decompress(exporter.ask(f"{BASE}/volumes/disk/disk.img.gz")[2]) == DISK
    older = BASE.replace("/v1/", "/v1beta1/")
    assert exporter.ask(f"{older}/volumes/disk/disk.img", "HEAD")[0] == 200
    assert exporter.ask(f"{BASE}/volumes/disk/disk.img?x-kubevirt-export-token={TOKEN}", "HEAD", token="")[0] == 200


def test_who_has_no_token_or_no_export_gets_nothing(exporter: Exporter, admin: KubeClient) -> None:
    assert exporter.ask(f"{BASE}/volumes/disk/disk.img", token="x" * 20)[0] == 401
    assert exporter.ask(f"{BASE}/volumes/disk/disk.img", token="")[0] == 401
    assert exporter.ask(f"{outside_path('default', 'other')}/volumes/disk/disk.img")[0] == 404
    assert exporter.ask(f"{BASE}/volumes/disk/disk.img", "POST")[0] == 400
    assert exporter.ask("/api/export.kubevirt.io/v1/other")[0] == 400
    assert exporter.ask(f"{BASE}/volumes/%2e%2e/%2e%2e/exportready")[0] == 400
    report(admin, exporter, "Pending")
    assert exporter.ask(f"{BASE}/volumes/disk/disk.img")[0] == 503


def test_a_half_download_never_looks_whole(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ExportedDisk.read

    def break_off(self: ExportedDisk, position: int, length: int) -> bytes:
        if position > len(DISK) // 2:
            raise OSError(5, "the disk is gone")
        return read(self, position, length)

    monkeypatch.setattr(ExportedDisk, "read", break_off)
    for form in ("disk.img", "disk.img.gz"):
        with pytest.raises((http.client.IncompleteRead, ConnectionError, ssl.SSLError)):
            exporter.ask(f"{BASE}/volumes/disk/{form}")


def test_a_client_that_takes_nothing_is_sent_away(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_proxy, "STALLED_SECONDS", 1.0)
    context = ssl.create_default_context(cadata=exporter.ca)
    context.check_hostname = False
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect((exporter.host, exporter.port))
    with context.wrap_socket(plain) as slow:
        head = f"GET {BASE}/volumes/disk/disk.img HTTP/1.1\r\nHost: x\r\nx-kubevirt-export-token: {TOKEN}\r\n\r\n"
        slow.sendall(head.encode())
        time.sleep(3)
        # Others do not notice.
        assert exporter.ask(f"{BASE}/volumes/disk/disk.img", "HEAD")[0] == 200
        slow.settimeout(20)
        with pytest.raises((ConnectionError, ssl.SSLError, EOFError)):
            read_all(slow, len(DISK))


def read_all(connection: ssl.SSLSocket, size: int) -> None:
    received = 0
    while received < size:
        piece = connection.recv(1 << 16)
        if not piece:
            raise EOFError
        received += len(piece)


def test_downloads_of_one_namespace_are_counted(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    read = ExportedDisk.read

    def wait_and_read(self: ExportedDisk, position: int, length: int) -> bytes:
        go.wait(180)
        return read(self, position, length)

    monkeypatch.setattr(ExportedDisk, "read", wait_and_read)
    path = f"{BASE}/volumes/disk/disk.img"
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(exporter.ask(path, Range="bytes=0-9")[0]))
        for _ in range(MOST_OF_ONE + 4)
    ]
    for each in threads:
        each.start()
    try:
        wait_until(lambda: answers.count(503) == 4, "no more are let in", 20)
    finally:
        go.set()
        for each in threads:
            each.join()
    assert sorted(answers) == [206] * MOST_OF_ONE + [503] * 4
    assert exporter.ask(path, "HEAD")[0] == 200


def test_manifests_tell_the_way_by_which_the_client_came(exporter: Exporter) -> None:
    status, _, text = exporter.ask(f"{BASE}/external/manifests/all", Accept="application/yaml")
    assert status == 200
    assert f"url: https://{exporter.host}:{exporter.port}{BASE}/volumes/disk/disk.img.gz".encode() in text


def test_the_embedded_api_hands_downloads_on(server: ApiServerUnderTest, exporter: Exporter) -> None:
    if server.name != "embedded":
        pytest.skip("a kube-apiserver has no such path")
    client = KubeClient.from_kubeconfig(server.write_kubeconfig("admin", ["system:masters"]))
    try:
        host, _, port = client.host.removeprefix("https://").rpartition(":")
    finally:
        client.close()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=60)
    try:
        headers = {"x-kubevirt-export-token": TOKEN}
        connection.request("GET", f"{BASE}/volumes/disk/disk.img", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, digest(answer.read())) == (200, digest(DISK))
    finally:
        connection.close()


def test_virtctl_downloads_through_the_proxy(server: ApiServerUnderTest, exporter: Exporter, tmp_path: Path) -> None:
    virtctl = Kubectl(server.write_kubeconfig("admin", ["system:masters"]), "virtctl")
    raw = tmp_path / "out.img"
    told = virtctl.run("vmexport", "download", "out", "--format=raw", f"--output={raw}")
    assert "Download finished successfully" in told
    assert digest(raw.read_bytes()) == digest(DISK)
    packed = tmp_path / "out.img.gz"
    virtctl.run("vmexport", "download", "out", "--volume=disk", f"--output={packed}")
    assert digest(gzip.decompress(packed.read_bytes())) == digest(DISK)
    text = virtctl.run("vmexport", "download", "out", "--manifest", "--include-secret")
    assert f"token: x-kubevirt-export-token:{TOKEN}" in text
    assert text.count("\n---\n") == 4


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"kind": "PersistentVolumeClaim", "name": ""}, "PVC name must not be empty"),
        ({"apiGroup": "x", "kind": "VirtualMachine", "name": "web"}, "VM API group must be kubevirt.io"),
        ({"kind": "Pod", "name": "web"}, "invalid kind"),
    ],
)
def test_what_cannot_be_exported_is_refused(admin: KubeClient, source: JsonObject, words: str) -> None:
    with pytest.raises(KubeError, match=words):
        admin.request("POST", _EXPORTS, an_export("bad", source))


def test_its_spec_stays_and_the_earlier_version_is_the_same(admin: KubeClient) -> None:
    older = _EXPORTS.replace("/v1/", "/v1beta1/")
    made: Any = admin.request("POST", older, an_export("fixed", SOURCE, "v1beta1"))
    assert made["apiVersion"] == "export.kubevirt.io/v1beta1"
    try:
        with pytest.raises(KubeError, match="spec in immutable after creation"):
            admin.request("PATCH", f"{_EXPORTS}/fixed", {"spec": {"ttlDuration": "9h"}}, None, MERGE)
        assert admin.request("GET", f"{_EXPORTS}/fixed")["spec"] == {"source": SOURCE}
    finally:
        remove(admin, f"{_EXPORTS}/fixed")
