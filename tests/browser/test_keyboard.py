"""What each page is for, by the keyboard alone; pages of which another file's tests do so are not here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import remove
from tests.support.chromium import Page, chromium_page

_VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
_MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancemigrations"
_NODES = "/api/v1/nodes"
_MERGE = "application/merge-patch+json"
_HAS_KEYS = "document.activeElement"


@pytest.fixture
def migration(admin: KubeClient, guest: JsonObject) -> Iterator[str]:
    """The path of one that is under way."""
    node = {"name": "second", "labels": {"kubevirt.io/schedulable": "true"}}
    admin.request("POST", _NODES, {"apiVersion": "v1", "kind": "Node", "metadata": node})
    about = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration"}
    admin.request("POST", _MIGRATIONS, {**about, "metadata": {"name": "away"}, "spec": {"vmiName": "small"}})
    yield f"{_MIGRATIONS}/away"
    remove(admin, f"{_MIGRATIONS}/away")
    admin.request("DELETE", f"{_NODES}/second")


async def go(page: Page, *names: str) -> None:
    """By links, one after the other."""
    for name in names:
        await page.tab_to(name)
        await page.press("Enter")


async def open_guest(page: Page, link: str, name: str) -> None:
    """One of the guest's streams."""
    await page.open(link)
    await page.wait("document.querySelector('tbody a')", "the guest is listed")
    await go(page, "small")
    await page.wait_text("Conditions")
    await go(page, name)


def test_the_keyboard_types_into_a_console_and_comes_out_of_it(guest: JsonObject, link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_guest(page, link, "Serial console")
            await page.wait(f"{_HAS_KEYS}.matches('.xterm-helper-textarea')", "the terminal has the keyboard")
            await page.wait_text("connected")
            await page.type("the guest says this")
            await page.wait_text("the guest says this")
            await page.press("Tab")
            assert await page.evaluate(f"{_HAS_KEYS}.matches('.xterm-helper-textarea')")
            await page.press("F6", "Control", "Shift")
            assert await page.evaluate(f"{_HAS_KEYS}.textContent") == "Connect again"
            await go(page, "Back to the VM")
            await page.wait_text("Conditions")
            is_faultless(page, link)

    asyncio.run(test())


def test_the_keyboard_reaches_a_screen_and_comes_out_of_it(guest: JsonObject, link: str, tmp_path: Path) -> None:
    """Without QEMU noVNC takes no keys yet: that it lets them go is seen with a guest."""

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_guest(page, link, "Screen")
            await page.wait("document.querySelector('.screen-frame canvas')", "noVNC's canvas is there")
            await page.tab_to("Screen of default/small")
            # As noVNC has it once it is connected.
            await page.evaluate("document.querySelector('.screen-frame canvas').focus(), 0")
            await page.press("F6", "Control", "Shift")
            assert await page.evaluate(f"{_HAS_KEYS}.getAttribute('aria-label')") == "Keys for the guest"
            await go(page, "Back to the VM")
            await page.wait_text("Conditions")
            is_faultless(page, link)

    asyncio.run(test())


def test_a_task_is_cancelled_and_the_keyboard_keeps_its_place_while_the_table_changes(
    admin: KubeClient, controller: KubeClient, migration: str, link: str, tmp_path: Path
) -> None:
    name = "Cancel the migration of small"

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("Sign out")
            await go(page, "Tasks")
            await page.wait("document.querySelector('td button:not([hidden])')", "it can be cancelled")
            await page.tab_to(name)
            controller.request("PATCH", f"{migration}/status", {"status": {"phase": "Scheduling"}}, None, _MERGE)
            await page.wait_text("Scheduling")
            assert await page.evaluate(f"{_HAS_KEYS}.ariaLabel") == name
            await page.press("Enter")
            await page.tab_to("Stay")
            await page.press("Enter")
            await page.wait_text("default/small stays")
            is_faultless(page, link)

    asyncio.run(test())


@pytest.mark.parametrize("name", ["Nodes", "Volumes", "Networks", "Alarms"])
def test_a_page_that_is_only_read_is_reached_and_said(guest: JsonObject, link: str, tmp_path: Path, name: str) -> None:
    """A screen reader hears its title and goes on from its heading; nothing of it wants a mouse."""

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("Sign out")
            await go(page, name)
            await page.wait(f"document.querySelector('h1')?.textContent === '{name}'", f"{name} are shown")
            assert await page.evaluate("document.title") == f"{name} · kvedge"
            assert await page.evaluate(f"{_HAS_KEYS}.id") == "main"
            assert await page.evaluate("document.querySelector('nav [aria-current=page]').textContent") == name
            is_faultless(page, link)

    asyncio.run(test())


def test_a_vm_is_changed_and_another_language_chosen(
    admin: KubeClient, vm: JsonObject, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait("document.querySelector('tbody a')", "the VM is listed")
            await go(page, "Deutsch")
            await page.wait("document.documentElement?.lang === 'de'", "it is in German")
            await page.wait("document.querySelector('tbody a')", "the VM is listed")
            await go(page, "shown")
            await page.wait_text("Bedingungen")
            await go(page, "YAML", "Bearbeiten")
            await page.wait(f"{_HAS_KEYS}.matches('textarea.code')", "it can be written")
            await page.evaluate(f"{_HAS_KEYS}.value = {_HAS_KEYS}.value.replace('Halted', 'Manual'), 0")
            await page.type(" ")
            await go(page, "Änderungen zeigen")
            await page.wait(f"{_HAS_KEYS}.textContent === 'Anwenden'", "it can be applied")
            await page.press("Enter")
            await page.wait_text("default/shown wurde geändert")
            is_faultless(page, link)

    asyncio.run(test())
    assert admin.request("GET", f"{_VMS}/shown")["spec"]["runStrategy"] == "Manual"
