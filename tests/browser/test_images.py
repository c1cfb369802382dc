"""Images in a browser: what there is, and uploads: whole, broken off, cancelled, refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.api.uploads.claim_reader import ClaimReader
from kvedge.api.uploads.worker_client import WorkerClient
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.disks.uploads import UPLOAD_AUTHORITY_SECRET, upload_server_name
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.browser.accessibility import findings
from tests.browser.breakable_line import BreakableLine
from tests.browser.test_cluster_pages import open_page
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import remove
from tests.support.chromium import Page, chromium_page
from tests.support.played_upload import PlayedWorker, played_worker
from tests.support.waiting import wait_until

_CDI = "/apis/cdi.kubevirt.io/v1beta1"
_VOLUMES = f"{_CDI}/namespaces/default/datavolumes"
_SOURCES = f"{_CDI}/namespaces/default/datasources"
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_MERGE = "application/merge-patch+json"
_MARK = "cdi.kubevirt.io/storage.upload.target"
_POD = "cdi.kubevirt.io/storage.pod"
_UPLOADED = 3 << 20
# More than what browser, console, proxy and worker hold together.
_LARGE = 64 << 20
_NAMESPACE = "[...document.querySelectorAll('label')].find((one) => one.textContent === 'Namespace').control"
_SIZE = "[...document.querySelectorAll('label')].find((one) => one.textContent === 'Disk size').control"
_BAR = "document.querySelector('[aria-label=\"Upload of default/disk\"]').value"


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
        with contextlib.suppress(NotFound):
            remove(admin, path)


def fill(admin: KubeClient) -> None:
    """As the controller does when the worker has ended."""
    done = {"metadata": {"annotations": {f"{_POD}.phase": "Succeeded"}}}
    admin.request("PATCH", f"{_CLAIMS}/disk", done, None, _MERGE)


async def choose(page: Page, path: Path) -> None:
    """A file, in the form."""
    await page.click("summary", "Upload an image")
    await set_file(page, path)


async def set_file(page: Page, path: Path) -> None:
    """As the browser's own dialog does."""
    root = (await page.call("DOM.getDocument"))["root"]["nodeId"]
    node = (await page.call("DOM.querySelector", nodeId=root, selector="#image-file"))["nodeId"]
    await page.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])
    await page.wait_text(path.name)
    await page.wait(f"{_NAMESPACE}.value", "the namespace is proposed")


async def wait_partly_sent(page: Page, worker: PlayedWorker) -> None:
    """Until the page has sent some of it, and the worker has begun to take it: a page is the first to know."""
    await page.wait(f"0 < {_BAR} && {_BAR} < 100", "a part of it is sent")
    async with asyncio.timeout(60):
        while not worker.sinks:
            await asyncio.sleep(0.05)


def test_a_file_is_uploaded_and_offered(admin: KubeClient, worker: PlayedWorker, link: str, tmp_path: Path) -> None:
    image = tmp_path / "Disk.img"
    image.write_bytes(bytes(range(256)) * (_UPLOADED >> 8))

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Images")
            await page.wait_text("UploadReady")
            await choose(page, image)
            await page.wait(f"{_SIZE}.value === '3Mi'", "its size is proposed")
            await page.click("button", "Upload")
            await page.wait_text("is checked and converted")
            assert worker.sinks[0].digest.digest() == sha256(image.read_bytes()).digest()
            fill(admin)
            await page.wait_text("is done")
            is_faultless(page, link)

    asyncio.run(test())
    assert_offered(admin)


def assert_offered(admin: KubeClient) -> None:
    """A DataSource leads to what was uploaded."""
    source = admin.request("GET", f"{_SOURCES}/disk")
    assert source["spec"]["source"]["pvc"] == {"name": "disk", "namespace": "default"}
    remove(admin, f"{_SOURCES}/disk")


def large(path: Path) -> Path:
    """A file of which each part differs."""
    with path.open("wb") as file:
        for number in range(_LARGE >> 20):
            file.write(bytes([number]) * (1 << 20))
    return path


async def drop(page: Page, path: Path) -> None:
    """A file onto the page, as by a mouse from a file manager."""
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for what in ("dragEnter", "dragOver", "drop"):
        await page.call("Input.dispatchDragEvent", type=what, x=300, y=300, data=data)
    await page.wait_text(f"{path.name}, ")
    await page.wait(f"{_NAMESPACE}.value", "the namespace is proposed")


def test_a_dropped_file_goes_on_where_its_connection_broke(
    admin: KubeClient, worker: PlayedWorker, link: str, tmp_path: Path
) -> None:
    image, line = large(tmp_path / "Disk.raw"), BreakableLine(link)

    async def test() -> None:
        async with line.laid(), chromium_page(tmp_path, line.rule) as page:
            await open_page(page, line.link, "Images")
            await drop(page, image)
            await page.wait(f"{_SIZE}.value === '64Mi'", "its size is proposed")
            assert await page.evaluate("document.getElementById('image-file').files[0].name") == "Disk.raw"
            worker.holds_up = True
            await page.click("button", "Upload")
            await wait_partly_sent(page, worker)
            # Other pages do not end it.
            await page.click("nav a", "Nodes")
            await page.wait("document.querySelector('h1')?.textContent === 'Nodes'", "nodes are shown")
            await page.click("nav a", "Images")
            await page.wait(f"0 < {_BAR} && {_BAR} < 100", "it is still there")
            line.cut()
            await page.wait_text("the connection was lost; goes on by itself")
            [sink] = worker.sinks
            sink.may_take.set()
            line.mend()
            await page.wait_text("is checked and converted")
            assert await page.evaluate(_BAR) == 100
            assert [each.digest.digest() for each in worker.sinks] == [sha256(image.read_bytes()).digest()]
            fill(admin)
            await page.wait_text("is done")
            assert all("net::ERR_" in fault for fault in page.faults), page.faults

    asyncio.run(test())
    assert_offered(admin)


def test_a_cancelled_upload_leaves_nothing(admin: KubeClient, worker: PlayedWorker, link: str, tmp_path: Path) -> None:
    image = large(tmp_path / "disk.img")

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Images")
            await choose(page, image)
            worker.holds_up = True
            await page.click("button", "Upload")
            await wait_partly_sent(page, worker)
            # A second one into the same disk would be in its way.
            await page.click("summary", "Upload an image")
            await page.click("button", "Upload")
            await page.wait_text("an upload into it is under way")
            await page.click("button", "Cancel")
            await page.wait_text("and delete its DataVolume?")
            await page.click("dialog button.yes")
            await page.wait_text("was cancelled")
            with pytest.raises(NotFound):
                admin.request("GET", f"{_VOLUMES}/disk")
            worker.sinks[0].may_take.set()
            await page.click("button", "Forget")
            await page.wait("!document.querySelector('[aria-label=\"Upload of default/disk\"]')", "it is forgotten")
            is_faultless(page, link)

    asyncio.run(test())
    wait_until(lambda: worker.run.find_kept().identity, "the worker has noticed")
    assert not worker.sinks[0].is_finished


def test_what_a_cancel_leaves_is_told(admin: KubeClient, worker: PlayedWorker, link: str, tmp_path: Path) -> None:
    image = large(tmp_path / "disk.img")

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Images")
            await choose(page, image)
            worker.holds_up = True
            await page.click("button", "Upload")
            await wait_partly_sent(page, worker)
            done = {"status": {"phase": "Succeeded"}}
            admin.request("PATCH", f"{_VOLUMES}/disk/status", done, None, _MERGE)
            await page.click("button", "Cancel")
            await page.click("dialog button.yes")
            await page.wait_text("was stopped, and its DataVolume may be left: DataVolume default/disk is no upload")
            worker.sinks[0].may_take.set()
            assert all("status of 409" in fault for fault in page.faults), page.faults

    asyncio.run(test())
    assert admin.request("GET", f"{_VOLUMES}/disk")


def test_a_file_larger_than_its_volume_is_refused_with_the_workers_words_and_may_be_tried_again(
    admin: KubeClient, worker: PlayedWorker, link: str, tmp_path: Path
) -> None:
    image = large(tmp_path / "disk.img")
    worker.room = 2 << 20

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Images")
            await choose(page, image)
            await page.click("button", "Upload")
            await page.wait_text("image size is larger than the reported available storage")
            await page.wait_text("; its DataVolume is left")
            offered = "[...document.querySelectorAll('p.bar button:not([hidden])')].map((one) => one.textContent)"
            assert await page.evaluate(offered) == ["Try again", "Cancel", "Forget"]
            worker.room = _LARGE
            await page.click("button", "Try again")
            await page.wait_text("is checked and converted")
            fill(admin)
            await page.wait_text("is done")
            assert all("status of 409" in fault for fault in page.faults), page.faults

    asyncio.run(test())
    assert [each.is_finished for each in worker.sinks] == [False, True]
    assert_offered(admin)


def test_a_file_that_was_changed_since_is_told(
    admin: KubeClient, worker: PlayedWorker, link: str, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(b"x" * _UPLOADED)

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Images")
            await choose(page, image)
            image.write_bytes(b"y" * 2 * _UPLOADED)
            await page.click("button", "Upload")
            await page.wait_text("the file cannot be read, or was changed since: choose it again")
            is_faultless(page, link)

    asyncio.run(test())
    assert worker.sinks == []


def test_who_may_only_view_uploads_nothing(worker: PlayedWorker, viewer_link: str, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(b"x" * _UPLOADED)

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, viewer_link, "Images")
            await page.wait_text("UploadReady")
            await choose(page, image)
            await page.wait_text("you may not upload there")
            upload = "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Upload')"
            assert await page.evaluate(f"{upload}.disabled")
            is_faultless(page, viewer_link)
            # Whatever a page shows, the server judges.
            await page.evaluate(f"{upload}.disabled = false, {upload}.click(), 0")
            await page.wait("document.querySelector('p.bar .bad')", "it is refused")
            said = str(await page.evaluate("document.querySelector('p.bar .bad').textContent"))
            assert "uploadtokenrequests" in said, said
            assert "forbidden" in said, said

    asyncio.run(test())
    assert worker.sinks == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_while_an_image_is_uploaded(
    worker: PlayedWorker, link: str, axe: str, tmp_path: Path, scheme: str
) -> None:
    image, found = large(tmp_path / "disk.img"), {}

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            await open_page(page, link, "Images")
            await page.wait_text("UploadReady")
            await choose(page, image)
            await page.fill("Name", " ")
            await page.click("button", "Upload")
            await page.wait_text("this is needed")
            found["a form with a fault"] = await findings(page, axe)
            await page.fill("Name", "disk")
            worker.holds_up = True
            await page.click("button", "Upload")
            await wait_partly_sent(page, worker)
            found["an upload"] = await findings(page, axe)
            await page.click("button", "Cancel")
            await page.wait("document.querySelector('dialog[open]')", "it is asked")
            found["a question"] = await findings(page, axe)
            await page.click("dialog button.yes")
            await page.wait_text("was cancelled")
            found["its end"] = await findings(page, axe)
            is_faultless(page, link)
            worker.sinks[0].may_take.set()

    asyncio.run(test())
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_an_image_is_uploaded_and_cancelled_by_the_keyboard_alone(
    admin: KubeClient, worker: PlayedWorker, link: str, tmp_path: Path
) -> None:
    image = large(tmp_path / "disk.img")

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("Sign out")
            await page.tab_to("Images")
            await page.press("Enter")
            await page.wait_text("UploadReady")
            await page.tab_to("Upload an image")
            await page.press("Enter")
            await page.tab_to("Image: qcow2 or raw, also packed; chosen, or dropped here")
            # What Enter opens there is the browser's own dialog.
            await set_file(page, image)
            worker.holds_up = True
            await page.tab_to("Upload")
            await page.press("Enter")
            await wait_partly_sent(page, worker)
            await page.tab_to("Cancel the upload of default/disk")
            await page.press("Enter")
            await page.wait("document.querySelector('dialog[open]')", "it is asked")
            await page.tab_to("Delete")
            await page.press("Enter")
            await page.wait_text("was cancelled")
            await page.wait("document.activeElement.textContent === 'Forget'", "the keyboard goes on from there")
            await page.press("Enter")
            await page.wait("!document.querySelector('main p.bar')", "it is forgotten")
            is_faultless(page, link)
            worker.sinks[0].may_take.set()

    asyncio.run(test())
    with pytest.raises(NotFound):
        admin.request("GET", f"{_VOLUMES}/disk")
