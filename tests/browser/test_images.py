"""Images in a browser: what there is, and the upload of a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.api.uploads.claim_reader import ClaimReader
from kvedge.api.uploads.worker_client import WorkerClient
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.disks.uploads import UPLOAD_AUTHORITY_SECRET, upload_server_name
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.browser.chromium import Page, chromium_page
from tests.browser.test_cluster_pages import open_page
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import remove
from tests.support.played_upload import PlayedWorker, played_worker

_CDI = "/apis/cdi.kubevirt.io/v1beta1"
_VOLUMES = f"{_CDI}/namespaces/default/datavolumes"
_SOURCES = f"{_CDI}/namespaces/default/datasources"
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_MERGE = "application/merge-patch+json"
_MARK = "cdi.kubevirt.io/storage.upload.target"
_POD = "cdi.kubevirt.io/storage.pod"
_UPLOADED = 3 << 20


async def played_address(reader: ClaimReader, claim: PersistentVolumeClaim) -> str:
    return "127.0.0.1"


@pytest.fixture
def worker(
    admin: KubeClient, api_role: ApiRole, subresources_answer: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PlayedWorker]:
    """The worker of a claim `disk` that waits for its image, and its proxy as CDIConfig tells it."""
    ready = {_MARK: "", f"{_POD}.ready": "true", f"{_POD}.phase": "Running"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = admin.request("POST", _CLAIMS, {"metadata": {"name": "disk", "annotations": ready}, "spec": spec})
    upload = {"source": {"upload": {}}, "storage": {"resources": spec["resources"]}}
    kind = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume"}
    admin.request("POST", _VOLUMES, {**kind, "metadata": {"name": "disk"}, "spec": upload})
    admin.request("PATCH", f"{_VOLUMES}/disk/status", {"status": {"phase": "UploadReady"}}, None, _MERGE)
    status = {
        "uploadProxyURL": f"https://{api_role.endpoint.address}:{api_role.endpoint.port}",
        "uploadProxyCA": existing_authority(admin).bundle.decode(),
    }
    config = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDIConfig", "metadata": {"name": "config"}}
    admin.request("POST", f"{_CDI}/cdiconfigs", {**config, "spec": {}, "status": status})
    admin.request("PATCH", f"{_CDI}/cdiconfigs/config", {"status": status}, None, _MERGE)
    authority = existing_authority(admin, UPLOAD_AUTHORITY_SECRET)
    directory = tmp_path / "worker"
    directory.mkdir()
    with played_worker(authority, upload_server_name(claim["metadata"]["uid"]), directory) as played:
        monkeypatch.setattr(ClaimReader, "find_worker_address", played_address)
        monkeypatch.setattr(WorkerClient, "port", played.server.port)
        yield played
    for path in (f"{_CDI}/cdiconfigs/config", f"{_VOLUMES}/disk", f"{_CLAIMS}/disk"):
        remove(admin, path)


def fill(admin: KubeClient) -> None:
    """As the controller does when the worker has ended."""
    done = {"metadata": {"annotations": {f"{_POD}.phase": "Succeeded"}}}
    admin.request("PATCH", f"{_CLAIMS}/disk", done, None, _MERGE)


async def choose(page: Page, path: Path) -> None:
    """A file, as by the browser's own dialog."""
    await page.click("summary", "Upload an image")
    root = (await page.call("DOM.getDocument"))["root"]["nodeId"]
    node = (await page.call("DOM.querySelector", nodeId=root, selector="#image-file"))["nodeId"]
    await page.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])
    await page.wait_text(path.name)


def test_a_file_is_uploaded_and_offered(admin: KubeClient, worker: PlayedWorker, link: str, tmp_path: Path) -> None:
    image = tmp_path / "Disk.img"
    image.write_bytes(bytes(range(256)) * (_UPLOADED >> 8))

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Images")
            await page.wait_text("UploadReady")
            await choose(page, image)
            size = "[...document.querySelectorAll('label')].find((one) => one.textContent === 'Disk size').control"
            await page.wait(f"{size}.value === '3Mi'", "its size is proposed")
            await page.click("button", "Upload")
            await page.wait_text("is checked and converted")
            assert worker.sinks[0].digest.digest() == sha256(image.read_bytes()).digest()
            fill(admin)
            await page.wait_text("is done")
            is_faultless(page, link)

    asyncio.run(test())
    source = admin.request("GET", f"{_SOURCES}/disk")
    assert source["spec"]["source"]["pvc"] == {"name": "disk", "namespace": "default"}
    remove(admin, f"{_SOURCES}/disk")
