"""The console without a mouse, and for screen readers: axe-core finds nothing, and the tab key is enough."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.browser.accessibility import findings
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import remove
from tests.support.builders import small_vmi, vm_of
from tests.support.chromium import Page, chromium_page

_VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
_SNAPSHOTS = "/apis/snapshot.kubevirt.io/v1beta1/namespaces/default/virtualmachinesnapshots"
_MERGE = "application/merge-patch+json"


@pytest.fixture
def vm(admin: KubeClient, subresources_answer: None) -> Iterator[JsonObject]:
    """A VM that does not run, with a snapshot."""
    document = vm_of(small_vmi())
    document["metadata"]["name"] = "shown"
    document["spec"] |= {"runStrategy": "Halted"}
    made = admin.request("POST", _VMS, document)
    admin.request("PATCH", f"{_VMS}/shown", {"status": {"printableStatus": "Stopped"}}, None, _MERGE)
    source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "shown"}
    kind = {"apiVersion": "snapshot.kubevirt.io/v1beta1", "kind": "VirtualMachineSnapshot"}
    admin.request("POST", _SNAPSHOTS, {**kind, "metadata": {"name": "before"}, "spec": {"source": source}})
    yield made
    remove(admin, f"{_SNAPSHOTS}/before")
    remove(admin, f"{_VMS}/shown")


async def open_parts(page: Page) -> None:
    """Everything that opens on a VM's page."""
    for title in ("Snapshots", "Migrations", "Backups", "YAML"):
        await page.click("summary", title)
    await page.click("button", "Edit")
    await page.wait("document.querySelector('textarea.code')", "the manifest can be changed")
    change = "document.querySelector('textarea.code')"
    await page.evaluate(f"{change}.value = {change}.value.replace('Halted', 'Manual'), 0")
    await page.click("button", "Show the changes")
    await page.wait_text("The server would make these changes")
    await page.wait("document.querySelector(\"[aria-label='Delete before']\")", "the snapshots are shown")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(
    guest: JsonObject, vm: JsonObject, link: str, axe: str, tmp_path: Path, scheme: str
) -> None:
    found: dict[str, list[str]] = {}

    async def test() -> None:
        async with chromium_page(tmp_path) as page:

            async def judge(name: str) -> None:
                found[name] = await findings(page, axe)

            await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            await page.open(link)
            await page.wait_text("shown")
            await judge("the list")
            await page.click("tbody a", "small")
            await page.wait_text("Conditions")
            await page.wait("document.querySelectorAll('figure svg').length === 4", "graphs are drawn")
            await judge("a VM that runs")
            await page.click("a", "Serial console")
            await page.wait("document.querySelector('.xterm-helper-textarea')", "the console is there")
            await judge("a console")
            await page.click("a", "Back to the VM")
            await page.click("a", "Screen")
            await page.wait("document.querySelector('.screen-frame canvas')", "the screen is there")
            await judge("a screen")
            for name in ("Overview", "Nodes", "Volumes", "Networks", "Tasks", "Alarms", "Images", "Settings", "Users"):
                await page.click("nav a", name)
                await page.wait(f"document.querySelector('h1')?.textContent === '{name}'", f"{name} are shown")
                await judge(name)
            await page.click("nav a", "New VM")
            await page.click("button", "Create")
            await page.wait_text("this is needed")
            await judge("a form with a fault")
            await page.click("nav a", "Virtual machines")
            await page.click("tbody a", "shown")
            await page.wait_text("Conditions")
            await open_parts(page)
            await judge("a VM that is changed")
            await page.click("[aria-label='Delete before']")
            await page.wait("document.querySelector('dialog[open]')", "it is asked")
            await judge("a question")
            await page.click("dialog button", "Cancel")
            for button in ("Attach a disk", "Clone"):
                await page.click("button", button)
                await page.wait("document.querySelector('dialog[open]')", "a window is open")
                await judge(button)
                await page.click("dialog button", "Cancel")

    asyncio.run(test())
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_axe_is_at_work(link: str, axe: str, tmp_path: Path) -> None:
    """It finds what is put there, so that nothing found means something."""
    bad = "Object.assign(document.createElement('input'), {type: 'text'})"

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("Sign out")
            await page.evaluate(f"document.querySelector('main').append({bad}), 0")
            await page.evaluate("document.querySelector('h1').style.color = '#ccc', 0")
            faults = await findings(page, axe)
            assert [fault.partition(",")[0] for fault in faults] == ['["color-contrast"', '["label"']
            # Nothing of it needs another policy.
            is_faultless(page, link)

    asyncio.run(test())


def test_a_vm_is_made_and_started_and_changed_by_the_keyboard_alone(
    admin: KubeClient, subresources_answer: None, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("Sign out")
            await page.tab_to("New VM")
            await page.press("Enter")
            await page.wait_text("New virtual machine")
            for label, text in (("Name", "keyed"), ("Image", "local/debian:12"), ("Memory", "128Mi")):
                await page.tab_to(label)
                await page.type(text)
            await page.tab_to("Create")
            await page.press("Enter")
            await page.wait_text("default/keyed was created")
            await page.wait_text("Conditions")
            change = {"spec": {"runStrategy": "Halted"}, "status": {"printableStatus": "Stopped"}}
            admin.request("PATCH", f"{_VMS}/keyed", change, None, _MERGE)
            await page.tab_to("Virtual machines")
            await page.press("Enter")
            await page.wait_text("Stopped")
            await page.tab_to("Choose default/keyed")
            await page.press(" ")
            # Round: what acts stands before the list.
            await page.tab_to("Start")
            await page.press("Enter")
            await page.wait_text("was asked to")
            await page.tab_to("keyed")
            await page.press("Enter")
            await page.wait_text("Conditions")
            await page.tab_to("Snapshots")
            await page.press("Enter")
            await page.tab_to("Take a snapshot")
            await page.press("Enter")
            await page.wait("document.querySelector(\"[aria-label^='Delete keyed-']\")", "it is listed")
            name = await page.evaluate("document.querySelector(\"[aria-label^='Delete keyed-']\").ariaLabel")
            await page.tab_to(str(name))
            await page.press("Enter")
            await page.wait("document.querySelector('dialog[open]')", "it is asked")
            # The question has the keyboard, and Escape is no.
            await page.press("Escape")
            await page.wait("!document.querySelector('dialog')", "the question goes")
            assert await page.evaluate("document.activeElement.ariaLabel") == name
            await page.press("Enter")
            await page.tab_to("Delete")
            await page.press("Enter")
            await page.wait_text("was deleted")
            is_faultless(page, link)

    asyncio.run(test())
    remove(admin, f"{_VMS}/keyed")
