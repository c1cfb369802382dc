"""What is done to a VM on its page besides its power: disks, clones, backups, its end; and what its guest says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.browser.test_console import is_faultless
from tests.browser.test_vm_page import open_vm
from tests.support.api_role_fixtures import EchoNode, remove
from tests.support.chromium import Page, chromium_page

_HERE = "namespaces/default"
_VMS = f"/apis/kubevirt.io/v1/{_HERE}/virtualmachines"
_CLAIMS = f"/api/v1/{_HERE}/persistentvolumeclaims"
_CLONES = f"/apis/clone.kubevirt.io/v1beta1/{_HERE}/virtualmachineclones"
_BACKUP = f"/apis/backup.kvedge.io/v1alpha1/{_HERE}"
_MERGE = "application/merge-patch+json"
_UUID = "01234567-89ab-cdef-0123-456789abcdef"
_NAME = "document.querySelector('[aria-label=\"Name of the new VM\"]')"


async def name_it(page: Page, name: str) -> None:
    """In the window that asks for the name of a new VM."""
    await page.wait(_NAME, "a name is asked for")
    await page.evaluate(f"{_NAME}.focus(), 0")
    await page.type(name)
    await page.click("dialog button.yes")


def test_a_disk_is_attached_and_detached(admin: KubeClient, vm: JsonObject, link: str, tmp_path: Path) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    admin.request("POST", _CLAIMS, {"metadata": {"name": "more"}, "spec": spec})

    def volumes() -> list[JsonObject]:
        return list(admin.request("GET", f"{_VMS}/shown")["spec"]["template"]["spec"]["volumes"])

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_vm(page, link)
            await page.click("button", "Attach a disk")
            await page.fill("DataVolume or claim", "more")
            await page.click("dialog button.yes")
            await page.wait("document.querySelector(\"[aria-label='Detach more']\")", "the page shows the disk")
            [added] = [each for each in volumes() if each["name"] == "more"]
            assert added["persistentVolumeClaim"] == {"claimName": "more", "hotpluggable": True}
            await page.click("[aria-label='Detach more']")
            await page.wait_text("Its claim stays")
            await page.click("dialog button.yes")
            await page.wait("!document.querySelector(\"[aria-label='Detach more']\")", "it is gone")
            assert "more" not in [each["name"] for each in volumes()]
            await page.click("button", "Attach a disk")
            await page.fill("DataVolume or claim", "no-such")
            await page.click("dialog button.yes")
            await page.wait_text("no-such is neither a DataVolume nor a PersistentVolumeClaim")

    asyncio.run(test())
    remove(admin, f"{_CLAIMS}/more")


def test_a_vm_is_cloned_and_deleted(admin: KubeClient, vm: JsonObject, link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_vm(page, link)
            await page.click("button", "Clone")
            await name_it(page, "twin")
            await page.wait_text("default/shown")
            await page.wait_text("twin is made of default/shown")
            await page.click("button", "Delete")
            await page.wait_text("Delete default/shown?")
            await page.click("dialog button.yes")
            await page.wait_text("default/shown was deleted")
            await page.wait("location.hash === '#/'", "the list is shown")
            is_faultless(page, link)

    asyncio.run(test())
    [clone] = admin.request("GET", _CLONES)["items"]
    assert (clone["spec"]["source"]["name"], clone["spec"]["target"]["name"]) == ("shown", "twin")
    remove(admin, f"{_CLONES}/{clone['metadata']['name']}")
    # A VM that was deleted is being taken down, or gone.
    try:
        assert admin.request("GET", f"{_VMS}/shown")["metadata"]["deletionTimestamp"]
    except NotFound:
        return


def test_a_backup_is_taken_and_becomes_a_vm(
    admin: KubeClient, controller: KubeClient, vm: JsonObject, link: str, tmp_path: Path
) -> None:
    secret = {"metadata": {"name": "key"}, "stringData": {"password": "a good one"}}
    admin.request("POST", f"/api/v1/{_HERE}/secrets", secret)
    spec = {"secretName": "key", "url": "s3:https://store.example/site"}
    about = {"apiVersion": "backup.kvedge.io/v1alpha1", "kind": "BackupRepository", "metadata": {"name": "safe"}}
    admin.request("POST", f"{_BACKUP}/backuprepositories", {**about, "spec": spec})
    done = {"phase": "Succeeded", "completionTime": "2026-01-02T03:04:05Z", "backupID": _UUID, "size": 5 << 20}

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_vm(page, link)
            await page.click("summary", "Backups")
            await page.click("button", "Back up now")
            await page.wait_text("default/shown is backed up")
            [run] = admin.request("GET", f"{_BACKUP}/backupruns")["items"]
            assert (run["spec"]["vmName"], run["spec"]["repositoryName"]) == ("shown", "safe")
            path = f"{_BACKUP}/backupruns/{run['metadata']['name']}/status"
            controller.request("PATCH", path, {"status": done}, None, _MERGE)
            await page.wait_text("5.0 MiB")
            await page.click("button", "Make a VM of it")
            await name_it(page, "again")
            await page.wait_text("again is being made of a backup")
            is_faultless(page, link)

    asyncio.run(test())
    [restore] = admin.request("GET", f"{_BACKUP}/backuprestores")["items"]
    wanted = {"vmName": "shown", "targetName": "again", "backupID": _UUID, "repositoryName": "safe"}
    assert {key: restore["spec"].get(key) for key in wanted} == wanted
    for kind in ("backuprestores", "backupruns", "backuprepositories"):
        for each in admin.request("GET", f"{_BACKUP}/{kind}")["items"]:
            remove(admin, f"{_BACKUP}/{kind}/{each['metadata']['name']}")
    remove(admin, f"/api/v1/{_HERE}/secrets/key")


def test_an_agents_facts_are_shown_as_text(
    guest: JsonObject, controller: KubeClient, echo_node: EchoNode, link: str, tmp_path: Path
) -> None:
    echo_node.door.answer = {
        "guestAgentVersion": "8.2",
        "os": {"prettyName": "<b>Debian</b>"},
        "items": [{"userName": "ann", "mountPoint": "/srv", "usedBytes": 1 << 30, "totalBytes": 2 << 30}],
    }
    connected = [{"type": "AgentConnected", "status": "True"}]
    path = f"/apis/kubevirt.io/v1/{_HERE}/virtualmachineinstances/small"
    controller.request("PATCH", path, {"status": {"conditions": connected}}, None, _MERGE)

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("tbody a", "small")
            await page.click("summary", "What the guest says")
            await page.wait_text("<b>Debian</b>")
            await page.wait_text("1.0 GiB")
            assert "ann" in await page.text()
            is_faultless(page, link)

    asyncio.run(test())
    echo_node.door.answer = {}
    controller.request("PATCH", path, {"status": {"conditions": []}}, None, _MERGE)


def test_a_console_begins_with_what_was_printed_before_and_answers_none_of_its_questions(
    guest: JsonObject, echo_node: EchoNode, link: str, tmp_path: Path
) -> None:
    # A terminal would say where its cursor is, and what it is.
    echo_node.door.console_text = b"booted long ago\r\n\x1b[6n\x1b[c"

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("a", "small")
            await page.click("a", "Serial console")
            await page.wait_text("booted long ago")
            # What stands below the log says so, too, before it is.
            state = "document.querySelector('[role=status].grow').textContent"
            await page.wait(f"{state} === 'connected'", "it is connected")
            await page.evaluate("document.querySelector('.xterm-helper-textarea').focus(), 0")
            await page.type("and this is new")
            # The guest echoes: what a terminal had answered would stand before it.
            await page.wait_text("and this is new")
            rows = await page.evaluate("document.querySelector('.xterm-rows').innerText")
            after = rows.partition("connected anew")[2]
            assert after.split() == ["and", "this", "is", "new"]
            is_faultless(page, link)

    asyncio.run(test())
    echo_node.door.console_text = b""


def test_the_list_is_sorted_by_the_column_that_is_chosen(
    admin: KubeClient, vm: JsonObject, guest: JsonObject, link: str, tmp_path: Path
) -> None:
    names = "JSON.stringify([...document.querySelectorAll('tbody tr')].map((row) => row.children[2].innerText))"
    mark = "[...document.querySelectorAll('th')].map((head) => head.getAttribute('aria-sort')).filter(Boolean).join()"

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("shown")
            await page.wait_text("small")
            assert json.loads(await page.evaluate(names)) == ["shown", "small"]
            assert await page.evaluate(mark) == "ascending"
            await page.click("th button", "State")
            assert json.loads(await page.evaluate(names)) == ["small", "shown"]
            await page.click("th button", "State")
            assert json.loads(await page.evaluate(names)) == ["shown", "small"]
            assert await page.evaluate(mark) == "descending"
            await page.click("th button", "Age")
            # The youngest first.
            assert await page.evaluate(mark) == "ascending"
            is_faultless(page, link)

    asyncio.run(test())


def test_the_overview_tells_what_there_is(
    admin: KubeClient, vm: JsonObject, guest: JsonObject, link: str, tmp_path: Path
) -> None:
    node = {"metadata": {"name": "roomy"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
    admin.request("POST", "/api/v1/nodes", node)
    ready = {"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
    admin.request("PATCH", "/api/v1/nodes/roomy/status", {"status": ready}, None, _MERGE)

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("nav a", "Overview")
            await page.wait_text("of 2 nodes are ready")
            await page.wait_text("1 of 4")
            await page.wait_text("No alarms.")
            assert "Stopped" in await page.text()
            is_faultless(page, link)

    asyncio.run(test())
    admin.request("DELETE", "/api/v1/nodes/roomy")
