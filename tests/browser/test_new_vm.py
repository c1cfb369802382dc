"""Making a VM in a browser: the form, its manifest beside it, and what the server says at the fields."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import remove
from tests.support.chromium import Page, chromium_page

_VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
_YAML = "document.querySelector('textarea.code')"


async def open_form(page: Page, link: str) -> None:
    """By its link."""
    await page.open(link)
    await page.click("nav a", "New VM")
    await page.wait_text("New virtual machine")


def _fault_of(label: str) -> str:
    """An expression for what stands at the field of that label."""
    fields = "[...document.querySelectorAll('.field')]"
    find = f"{fields}.find((found) => found.querySelector('label').textContent === '{label}')"
    return f"{find}.querySelector('.fault').textContent"


def test_a_form_makes_a_vm_of_the_manifest_that_it_shows(admin: KubeClient, link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_form(page, link)
            await page.fill("Name", "made")
            await page.fill("Image", "local/debian:12")
            await page.fill("Memory", "256Mi")
            await page.fill("User", "me")
            await page.fill("SSH public keys", "ssh-ed25519 AAAA me")
            await page.wait(f"{_YAML}.value.includes('ssh-ed25519 AAAA me')", "the manifest is shown")
            await page.click("button", "Create")
            await page.wait_text("default/made was created")
            await page.wait("document.title === 'made · kvedge'", "the VM's page opens")
            is_faultless(page, link)

    asyncio.run(test())
    made = admin.request("GET", f"{_VMS}/made")
    spec = made["spec"]["template"]["spec"]
    assert spec["domain"]["memory"] == {"guest": "256Mi"}
    assert spec["volumes"][0] == {"name": "system", "containerDisk": {"image": "local/debian:12"}}
    assert "ssh-ed25519 AAAA me" in spec["volumes"][1]["cloudInitNoCloud"]["userData"]
    remove(admin, f"{_VMS}/made")


def test_what_is_wrong_is_shown_at_its_field_and_nothing_is_made(admin: KubeClient, link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_form(page, link)
            await page.click("button", "Create")
            await page.wait_text("this is needed")
            assert await page.evaluate("document.activeElement.labels[0].textContent") == "Image"
            await page.fill("Image", "local/debian:12")
            await page.fill("Memory", "much")
            await page.wait(f"{_fault_of('Memory')}.includes('much')", "the memory is refused")
            await page.fill("Memory", "1Gi")
            # What only the server knows.
            await page.fill("Name", "Not_A_Name")
            await page.wait(f"{_YAML}.value.includes('Not_A_Name')", "the manifest is shown")
            await page.click("button", "Create")
            await page.wait(_fault_of("Name"), "the name is refused")
            # The browser itself notes an answer with an error.
            assert all("status of 4" in fault for fault in page.faults), page.faults

    asyncio.run(test())
    with pytest.raises(NotFound):
        admin.request("GET", f"{_VMS}/Not_A_Name")


def test_a_manifest_changed_by_hand_is_checked_and_is_what_is_made(
    admin: KubeClient, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_form(page, link)
            await page.fill("Name", "byhand")
            await page.fill("Image", "local/debian:12")
            await page.wait(f"{_YAML}.value.includes('byhand')", "the manifest is shown")
            await page.evaluate(f"{_YAML}.focus(), {_YAML}.setSelectionRange(0, 0)")
            await page.type("# mine\n")
            await page.wait_text("Changed by hand")
            await page.evaluate(
                f"{_YAML}.value = {_YAML}.value.replace('runStrategy: Always', 'runStrategy: Halted'), 0"
            )
            await page.click("button", "Check")
            await page.wait_text("the server takes it")
            with pytest.raises(NotFound):
                admin.request("GET", f"{_VMS}/byhand")
            await page.click("button", "Create")
            await page.wait_text("default/byhand was created")
            is_faultless(page, link)

    asyncio.run(test())
    assert admin.request("GET", f"{_VMS}/byhand")["spec"]["runStrategy"] == "Halted"
    remove(admin, f"{_VMS}/byhand")
