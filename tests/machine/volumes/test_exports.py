"""Exports of one box, by an unmodified virtctl and by clients that know nothing but a URL and a token."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from tests.support.api_servers import Kubectl
from tests.support.box import Box, small_vm
from tests.support.live_folders import find_named
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]
SIZE = 24 << 20
_DATA = ((0, 3 << 20), (9 << 20, 200_000), (SIZE - 4096, 4096))
_EXPORTS = "/apis/export.kubevirt.io/v1/namespaces/default/virtualmachineexports"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.57.0/24")
    found.start()
    yield found
    log = found.log.read_text()
    found.remove()
    assert [line for line in log.splitlines() if "is forbidden" in line] == []


@pytest.fixture(scope="module")
def virtctl(box: Box) -> Kubectl:
    return Kubectl(box.kubeconfig, "virtctl")


@pytest.fixture(scope="module")
def disk(box: Box, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The sha256 of the disk of the stopped VM `plant`, which has data, holes, and data at its end."""
    image = tmp_path_factory.mktemp("image") / "disk.raw"
    with image.open("wb") as file:
        file.truncate(SIZE)
        for position, length in _DATA:
            file.seek(position)
            file.write(os.urandom(length))
    box.cli("image-upload", "dv", "plant-disk", "--size=24Mi", f"--image-path={image}", "--force-bind")
    volumes = [{"name": "root", "dataVolume": {"name": "plant-disk"}}]
    vm: dict[str, Any] = small_vm("plant", "unused", "Halted", volumes=volumes)
    vm["spec"]["template"]["spec"]["domain"]["devices"]["disks"] = [{"name": "root", "disk": {"bus": "virtio"}}]
    box.apply(vm)
    return hashlib.sha256(image.read_bytes()).hexdigest()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def export(client: KubeClient, name: str) -> VirtualMachineExport | None:
    try:
        return client.get(VirtualMachineExport, "default", name)
    except NotFound:
        return None


def make_export(box: Box, name: str, kind: str = "VirtualMachine", source: str = "plant", **spec: object) -> None:
    groups = {"VirtualMachine": "kubevirt.io", "VirtualMachineSnapshot": "snapshot.kubevirt.io"}
    reference = {"apiGroup": groups.get(kind), "kind": kind, "name": source}
    kind_of_export = {"apiVersion": "export.kubevirt.io/v1", "kind": "VirtualMachineExport"}
    document = {**kind_of_export, "metadata": {"name": name}, "spec": {"source": reference, **spec}}
    box.client.request("POST", _EXPORTS, document)


def wait_ready(box: Box, name: str) -> VirtualMachineExport:
    def check() -> VirtualMachineExport | None:
        found = export(box.client, name)
        return found if found is not None and found.status.phase == "Ready" else None

    try:
        return wait_until(check, f"export {name} is ready", 60)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{export(box.client, name)}\n{box.log_tail()}") from error


def token_of(box: Box, found: VirtualMachineExport) -> str:
    secret = box.client.request("GET", f"/api/v1/namespaces/default/secrets/{found.status.token_secret_ref}")
    return base64.b64decode(secret["data"]["token"]).decode()


def raw_url(found: VirtualMachineExport) -> str:
    links = found.status.links
    assert links is not None
    assert links.external is not None
    return next(each.url for each in links.external.volumes[0].formats if each.format == "raw")


def fetch(
    found: VirtualMachineExport, url: str, token: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Ask as a client that trusts what the link says."""
    links = found.status.links
    assert links is not None
    assert links.external is not None
    parts = urlsplit(url)
    context = ssl.create_default_context(cadata=links.external.cert)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=60, context=context)
    try:
        sent = {"x-kubevirt-export-token": token, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection.request(method, f"{parts.path}{'?' if parts.query else ''}{parts.query}", headers=sent)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_virtctl_downloads_the_disk_of_a_stopped_vm(box: Box, virtctl: Kubectl, disk: str, tmp_path: Path) -> None:
    whole = tmp_path / "disk.img"
    told = virtctl.run("vmexport", "download", "by-vm", "--vm=plant", "--format=raw", f"--output={whole}")
    assert "Download finished successfully" in told
    assert digest(whole.read_bytes()) == disk
    packed = tmp_path / "disk.img.gz"
    virtctl.run("vmexport", "download", "by-pvc", "--pvc=plant-disk", f"--output={packed}")
    assert digest(gzip.decompress(packed.read_bytes())) == disk
    assert digest(subprocess.run(["gzip", "-dc", packed], check=True, capture_output=True).stdout) == disk
    # An export that a download has made goes with it, and takes everything along.
    by_port = tmp_path / "by-port.img"
    options = ("--port-forward", "--format=raw", f"--output={by_port}")
    told = virtctl.try_run("vmexport", "download", "by-port", "--pvc=plant-disk", *options)
    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    assert digest(by_port.read_bytes()) == disk
    wait_until(lambda: export(box.client, "by-vm") is None, "the export is gone")
    wait_until(lambda: not box.client.list(Pod, "default"), "its Pod is gone")


def test_virtctl_creates_keeps_and_deletes_an_export(box: Box, virtctl: Kubectl, disk: str, tmp_path: Path) -> None:
    # Without an output file it keeps standard output free.
    told = virtctl.try_run("vmexport", "create", "kept", "--vm=plant", "--ttl=1h").stderr
    assert told == "VirtualMachineExport 'default/kept' created successfully\n"
    again = virtctl.try_run("vmexport", "create", "kept", "--vm=plant")
    assert "VirtualMachineExport 'default/kept' already exists" in again.stderr
    whole = tmp_path / "disk.img"
    virtctl.run("vmexport", "download", "kept", "--format=raw", f"--output={whole}")
    assert digest(whole.read_bytes()) == disk
    assert export(box.client, "kept") is not None
    told = virtctl.try_run("vmexport", "delete", "kept").stderr
    assert told == "VirtualMachineExport 'default/kept' deleted successfully\n"


def test_a_client_reads_parts_and_needs_the_token(box: Box, disk: str) -> None:
    make_export(box, "parts")
    found = wait_ready(box, "parts")
    url, token = raw_url(found), token_of(box, found)
    assert len(token) == 20
    status, headers, body = fetch(found, url, token)
    assert (status, headers["content-length"], digest(body)) == (200, str(SIZE), disk)
    assert fetch(found, url, token, "HEAD")[1]["content-length"] == str(SIZE)
    status, headers, part = fetch(found, url, token, Range="bytes=1000-1999")
    assert (status, headers["content-range"], part) == (206, f"bytes 1000-1999/{SIZE}", body[1000:2000])
    tag = headers["etag"]
    assert fetch(found, url, token, Range="bytes=-4096", If_Range=tag)[2] == body[-4096:]
    assert fetch(found, url, token, Range="bytes=5-", If_Range='"another"')[0] == 200
    assert fetch(found, url, token, Range=f"bytes={SIZE}-")[0] == 416
    assert fetch(found, url, "x" * 20)[0] == 401
    assert fetch(found, url, "")[0] == 401
    assert fetch(found, f"{url}?x-kubevirt-export-token={token}", "wrong", "HEAD")[0] == 200
    assert fetch(found, url, token, "POST")[0] == 400
    assert token not in box.log.read_text()
    status, _, page = fetch(found, f"{url}.map", token)
    told = json.loads(page)
    assert (told["size"], told["next_offset"]) == (SIZE, None)
    data = bytearray(SIZE)
    for each in told["extents"]:
        begin, end = each["offset"], each["offset"] + each["length"]
        data[begin:end] = body[begin:end]
    assert digest(bytes(data)) == disk
    assert sum(each["length"] for each in told["extents"]) < SIZE // 2
    box.client.request("DELETE", f"{_EXPORTS}/parts")


def test_manifests_import_the_vm_elsewhere(box: Box, disk: str) -> None:
    make_export(box, "moved")
    found = wait_ready(box, "moved")
    token = token_of(box, found)
    # Within the box: nothing is imported from the loopback address at which this one is reached from outside.
    base = raw_url(found).partition("/volumes/")[0]
    text = ""
    for what in ("all", "secret"):
        text += fetch(found, f"{base}/internal/manifests/{what}", token, Accept="application/yaml")[2].decode()
    documents = [each for each in yaml.safe_load_all(text) if each]
    assert [each["kind"] for each in documents] == ["ConfigMap", "VirtualMachine", "DataVolume", "Secret"]
    box.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    for each in documents:
        each["metadata"]["namespace"] = "elsewhere"
        box.apply(each)
    path = "/apis/cdi.kubevirt.io/v1beta1/namespaces/elsewhere/datavolumes/plant-disk"
    try:
        wait_until(
            lambda: box.client.request("GET", path).get("status", {}).get("phase") == "Succeeded", "imported", 60
        )
    except AssertionError as error:
        raise AssertionError(f"{error}\n{box.client.request('GET', path)}\n{box.log_tail()}") from error
    copies = [each for each in find_named(box.data_dir, "disk.img") if "volumes" in each.parts]
    assert [digest(each.read_bytes()[:SIZE]) for each in copies].count(disk) == 2
    box.client.request("DELETE", f"{_EXPORTS}/moved")


def test_a_download_goes_on_after_its_exporter_was_killed(box: Box, disk: str) -> None:
    make_export(box, "lost")
    found = wait_ready(box, "lost")
    url, token = raw_url(found), token_of(box, found)
    _, headers, begin = fetch(found, url, token, Range="bytes=0-999999")
    pod = box.client.get(Pod, "default", "virt-export-lost")
    box.client.delete(Pod, "default", "virt-export-lost", grace_seconds=0)

    def serves_anew() -> bool:
        try:
            other = box.client.get(Pod, "default", "virt-export-lost")
        except NotFound:
            return False
        now = export(box.client, "lost")
        return other.metadata.uid != pod.metadata.uid and now is not None and now.status.phase == "Ready"

    wait_until(serves_anew, "another exporter serves", 60)

    def go_on() -> tuple[int, dict[str, str], bytes] | None:
        answer = fetch(found, url, token, Range="bytes=1000000-", If_Range=headers["etag"])
        return answer if answer[0] != 503 else None

    status, _, rest = wait_until(go_on, "the rest comes", 30)
    assert status == 206
    assert digest(begin + rest) == disk
    box.client.request("DELETE", f"{_EXPORTS}/lost")


def test_the_cli_downloads_as_virtctl_does(box: Box, disk: str, tmp_path: Path) -> None:
    path = tmp_path / "plant.img"
    box.cli("vmexport", "download", "by-cli", "--vm=plant", "--format=raw", f"--output={path}")
    assert digest(path.read_bytes()) == disk
    assert path.stat().st_blocks * 512 < SIZE
    assert export(box.client, "by-cli") is None
    packed = tmp_path / "plant.gz"
    box.cli("vmexport", "create", "by-cli", "--vm=plant")
    box.cli("vmexport", "download", "by-cli", f"--output={packed}", "--delete-vme")
    assert digest(gzip.decompress(packed.read_bytes())) == disk
    assert export(box.client, "by-cli") is None


def test_a_disk_comes_back_into_its_claim(box: Box, disk: str, tmp_path: Path) -> None:
    box.cli("snapshot", "create", "plant", "to-come-back", "--wait")
    claim = box.client.get(PersistentVolumeClaim, "default", "plant-disk")
    place = box.client.get(PersistentVolume, "", claim.spec.volume_name)
    assert place.spec.local is not None
    spoiled = Path(place.spec.local.path) / "disk.img"
    spoiled.write_bytes(b"spoiled")
    box.apply(
        {
            "apiVersion": "snapshot.kubevirt.io/v1beta1",
            "kind": "VirtualMachineRestore",
            "metadata": {"name": "back", "namespace": "default"},
            "spec": {
                "target": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "plant"},
                "virtualMachineSnapshotName": "to-come-back",
                "volumeRestorePolicy": "InPlace",
            },
        }
    )

    def done() -> bool:
        found = box.client.get(VirtualMachineRestore, "default", "back")
        assert not found.has_failed, found.status
        return bool(found.status.complete)

    wait_until(done, "the restore is complete", seconds=90)
    back = box.client.get(PersistentVolumeClaim, "default", "plant-disk")
    assert back.metadata.uid != claim.metadata.uid
    assert back.status.phase == "Bound"
    path = tmp_path / "back.img"
    box.cli("vmexport", "download", "back", "--pvc=plant-disk", "--format=raw", f"--output={path}")
    assert digest(path.read_bytes()) == disk
    # The old data go once the new ones are in place.
    wait_until(lambda: not spoiled.exists(), "the old volume goes", seconds=30)
    box.cli("snapshot", "delete", "plant", "to-come-back")


def test_a_guest_that_starts_pauses_an_export_and_its_end_resumes_it(box: Box, disk: str) -> None:
    make_export(box, "paused")
    found = wait_ready(box, "paused")
    url, token = raw_url(found), token_of(box, found)
    box.cli("start", "plant")
    wait_until(lambda: (export(box.client, "paused") or found).status.phase == "Pending", "the export is paused", 30)
    assert fetch(found, url, token)[0] == 503
    box.wait_phase("plant", "Running")
    paused = export(box.client, "paused")
    assert paused is not None
    assert paused.status.conditions[0].message == "Virtual Machine default/plant is running"
    box.cli("stop", "plant", "--force", "--grace-period=0")
    box.wait_gone("plant")
    again = wait_ready(box, "paused")
    assert token_of(box, again) == token
    status, _, body = fetch(again, raw_url(again), token)
    assert status == 200
    assert digest(body) == disk
    box.client.request("DELETE", f"{_EXPORTS}/paused")


def test_virtctl_downloads_a_snapshot_while_the_vm_runs(box: Box, virtctl: Kubectl, disk: str, tmp_path: Path) -> None:
    box.cli("snapshot", "create", "plant", "before", "--wait")
    box.cli("start", "plant")
    box.wait_phase("plant", "Running")
    whole = tmp_path / "disk.img"
    virtctl.run(
        "vmexport", "download", "old", "--snapshot=before", "--volume=old-plant-disk", "--format=raw",
        f"--output={whole}",
    )  # fmt: skip
    assert digest(whole.read_bytes()) == disk
    box.remove_vm("plant")
