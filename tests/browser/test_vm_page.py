"""A VM's page in a browser: its manifest is changed, snapshots are taken and put back; who may not, sees less."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import remove
from tests.support.builders import small_vmi
from tests.support.chromium import Page, chromium_page

_VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
_VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
_SNAPSHOTS = "/apis/snapshot.kubevirt.io/v1beta1/namespaces/default/virtualmachinesnapshots"
_RESTORES = "/apis/snapshot.kubevirt.io/v1beta1/namespaces/default/virtualmachinerestores"
_MERGE = "application/merge-patch+json"
_YAML = "document.querySelector('textarea.code')"


async def open_vm(page: Page, link: str) -> None:
    """By the list."""
    await page.open(link)
    await page.click("tbody a", "shown")
    await page.wait_text("Conditions")


async def begin_edit(page: Page) -> None:
    """With the manifest as it is now."""
    await page.click("summary", "YAML")
    await page.click("button", "Edit")
    await page.wait(f"{_YAML}?.value.includes('runStrategy: Halted')", "the manifest can be changed")


async def replace(page: Page, old: str, new: str) -> None:
    """In the manifest, as a user who types it."""
    change = f"{_YAML}.value.replace({json.dumps(old)}, {json.dumps(new)})"
    await page.evaluate(f"{_YAML}.value = {change}, {_YAML}.dispatchEvent(new Event('input')), 0")


def test_a_change_is_shown_before_it_is_made(admin: KubeClient, vm: JsonObject, link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_vm(page, link)
            await begin_edit(page)
            await replace(page, "runStrategy: Halted", "runStrategy: Manual")
            assert await page.evaluate("document.querySelector('button.main').disabled")
            await page.click("button", "Show the changes")
            await page.wait_text("The server would make these changes")
            changes = await page.evaluate("[...document.querySelectorAll('ins, del')].map((line) => line.innerText)")
            assert [line.strip() for line in changes] == ["-   runStrategy: Halted", "+   runStrategy: Manual"]
            assert admin.request("GET", f"{_VMS}/shown")["spec"]["runStrategy"] == "Halted"
            await page.click("button", "Apply")
            await page.wait_text("default/shown was changed")
            is_faultless(page, link)

    asyncio.run(test())
    assert admin.request("GET", f"{_VMS}/shown")["spec"]["runStrategy"] == "Manual"


def test_a_change_that_cannot_be_is_refused_and_a_newer_vm_is_not_written_over(
    admin: KubeClient, vm: JsonObject, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_vm(page, link)
            await begin_edit(page)
            await replace(page, "runStrategy: Halted", "runStrategy: Sometimes")
            await page.click("button", "Show the changes")
            await page.wait("document.querySelector('.faults:not([hidden])')", "it is refused")
            assert "runStrategy" in await page.evaluate("document.querySelector('.faults').innerText")
            await replace(page, "runStrategy: Sometimes", "runStrategy: Once")
            await page.click("button", "Show the changes")
            await page.wait_text("The server would make these changes")
            admin.request("PATCH", f"{_VMS}/shown", {"spec": {"runStrategy": "Manual"}}, None, _MERGE)
            await page.click("button", "Apply")
            await page.wait("document.querySelector('.faults:not([hidden])')", "it is refused")

    asyncio.run(test())
    assert admin.request("GET", f"{_VMS}/shown")["spec"]["runStrategy"] == "Manual"


def test_a_snapshot_is_taken_put_back_and_deleted(
    admin: KubeClient, controller: KubeClient, vm: JsonObject, link: str, tmp_path: Path
) -> None:
    ready = {"status": {"phase": "Succeeded", "readyToUse": True, "creationTime": "2026-01-02T03:04:05Z"}}

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_vm(page, link)
            await page.click("summary", "Snapshots")
            await page.wait("document.querySelector('[aria-label=\"Name of the snapshot\"]')", "it is opened")
            await page.evaluate("document.querySelector('[aria-label=\"Name of the snapshot\"]').focus()")
            await page.type("before")
            await page.click("button", "Take a snapshot")
            await page.wait_text("not seen by the controller yet")
            controller.request("PATCH", f"{_SNAPSHOTS}/before/status", ready, None, _MERGE)
            await page.click("[aria-label='Restore before']")
            await page.wait_text("Put snapshot before back into default/shown?")
            await page.click("dialog button.yes")
            await page.wait_text("is being put back")
            await page.click("[aria-label='Delete before']")
            await page.click("dialog button.yes")
            await page.wait_text("snapshot before was deleted")
            is_faultless(page, link)

    asyncio.run(test())
    [restore] = admin.request("GET", _RESTORES)["items"]
    assert restore["spec"]["virtualMachineSnapshotName"] == "before"
    remove(admin, f"{_RESTORES}/{restore['metadata']['name']}")
    with pytest.raises(NotFound):
        admin.request("GET", f"{_SNAPSHOTS}/before")


def test_memory_of_a_guest_that_runs_is_offered_and_where_it_cannot_be_had_why(
    admin: KubeClient, controller: KubeClient, vm: JsonObject, link: str, tmp_path: Path
) -> None:
    run = small_vmi(volumes=[{"name": "root", "persistentVolumeClaim": {"claimName": "shown"}}])
    run["metadata"] |= {"name": "shown", "namespace": "default"}
    admin.request("POST", _VMIS, run)
    running: JsonObject = {"status": {"phase": "Running"}}
    controller.request("PATCH", f"{_VMIS}/shown", running, None, _MERGE)
    box = "document.querySelector('#snapshot-memory')"

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_vm(page, link)
            await page.click("summary", "Snapshots")
            await page.wait(f"{box} && !{box}.disabled", "memory is offered")
            await page.click("label", "With the guest's memory")
            await page.click("button", "Take a snapshot")
            await page.wait("document.querySelector(\"[aria-label^='Delete shown-']\")", "it is listed")
            # What was chosen stays.
            assert await page.evaluate(f"{box}.checked")
            running["status"]["memory"] = {"guestAtBoot": "64Mi", "guestCurrent": "128Mi"}
            controller.request("PATCH", f"{_VMIS}/shown", running, None, _MERGE)
            await page.wait_text("Without memory: spec.domain.memory.guest: it was changed while the guest runs")
            assert await page.evaluate(f"{box}.disabled && !{box}.checked")
            is_faultless(page, link)

    try:
        asyncio.run(test())
        [taken] = admin.request("GET", _SNAPSHOTS)["items"]
        assert taken["metadata"]["annotations"]["kvedge.io/snapshot-memory"] == "true"
        remove(admin, f"{_SNAPSHOTS}/{taken['metadata']['name']}")
    finally:
        remove(admin, f"{_VMIS}/shown")


def test_who_may_only_view_is_offered_no_change(
    admin: KubeClient, vm: JsonObject, viewer_link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_vm(page, viewer_link)
            await page.click("summary", "Snapshots")
            await page.click("summary", "Migrations")
            await page.click("summary", "YAML")
            await page.wait("document.querySelector('pre')", "the YAML is shown")
            await page.wait_text("none")
            offered = await page.evaluate(
                "[...document.querySelectorAll('main details button')].filter((node) => node.checkVisibility())"
                ".map((node) => node.textContent)"
            )
            assert offered == []

    asyncio.run(test())
