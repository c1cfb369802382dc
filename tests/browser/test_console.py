"""The web console in a browser, against a real API: any violation of the policy and any console error is a failure."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.support.api_role_fixtures import remove
from tests.support.builders import small_vmi, vm_of
from tests.support.chromium import Page, chromium_page

_VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
_VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
_MERGE = "application/merge-patch+json"
_HOSTILE = "<img src=x onerror=\"document.title='taken'\">\u202e"


def is_faultless(page: Page, link: str) -> None:
    """Nothing went wrong, and nothing was asked of another host."""
    assert page.faults == []
    hosts = {urlsplit(url).netloc for url in page.requested if not url.startswith(("data:", "about:"))}
    assert hosts == {urlsplit(link).netloc}


def test_the_list_shows_vms_starts_one_and_follows_changes(admin: KubeClient, link: str, tmp_path: Path) -> None:
    vm = vm_of(small_vmi())
    vm["metadata"]["name"] = "web"
    vm["spec"] |= {"runStrategy": "Halted"}
    admin.request("POST", _VMS, vm)

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("web")
            assert "sign-in" not in await page.evaluate("location.href")
            admin.request("PATCH", f"{_VMS}/web", {"status": {"printableStatus": "Stopped"}}, None, _MERGE)
            await page.wait_text("Stopped")
            await page.click("input[aria-label='Choose default/web']")
            await page.click("button", "Start")
            await page.wait_text("was asked to")
            changed = admin.request("GET", f"{_VMS}/web")
            assert changed["spec"]["runStrategy"] == "Always" or changed["status"]["stateChangeRequests"]
            # What comes after the page was opened, and what goes.
            remove(admin, f"{_VMS}/web")
            await page.wait("!document.querySelector('tbody').innerText.includes('web')", "the row goes")
            is_faultless(page, link)

    asyncio.run(test())


def test_a_link_signs_in_once(link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("Sign out")
            await page.click("#sign-out")
            await page.wait_text("Not signed in")
            await page.open("about:blank")
            await page.open(link)
            await page.wait_text("this link was used already")

    asyncio.run(test())


def test_a_serial_console_shows_the_guests_bytes(guest: JsonObject, link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("a", "small")
            await page.click("a", "Serial console")
            await page.wait("document.querySelector('[role=status].grow').textContent === 'connected'", "connected")
            await page.evaluate("document.querySelector('.xterm-helper-textarea').focus()")
            await page.type("the guest says this")
            await page.wait_text("the guest says this")
            # xterm.js makes its style elements with the page's nonce: without it the rows have no colours.
            sheets = "[...document.querySelectorAll('.xterm style')].map((style) => style.sheet?.cssRules.length ?? 0)"
            counts = await page.evaluate(sheets)
            assert counts, "xterm.js makes no style elements any more: style_nonce.js can go"
            assert all(counts)
            is_faultless(page, link)

    asyncio.run(test())


def test_the_screens_page_runs_novnc_within_the_policy(guest: JsonObject, link: str, tmp_path: Path) -> None:
    """As far as without QEMU: noVNC is loaded, and its canvas is there."""

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("a", "small")
            await page.click("a", "Screen")
            await page.wait("document.querySelector('.screen-frame canvas')", "noVNC's canvas is there")
            assert any(url.endswith("/static/vendor/screen.js") for url in page.requested)
            is_faultless(page, link)

    asyncio.run(test())


def test_what_guests_and_users_wrote_is_text(
    admin: KubeClient, controller: KubeClient, guest: JsonObject, link: str, tmp_path: Path
) -> None:
    conditions = [{"type": "AgentConnected", "status": "True", "reason": _HOSTILE, "message": _HOSTILE}]
    status = {
        "conditions": conditions,
        "guestOSInfo": {"name": _HOSTILE, "prettyName": _HOSTILE},
        "interfaces": [{"name": _HOSTILE, "interfaceName": _HOSTILE, "ipAddress": "10.0.0.1", "mac": "x"}],
    }
    controller.request("PATCH", f"{_VMIS}/small", {"status": status}, None, _MERGE)
    admin.request("PATCH", f"{_VMIS}/small", {"metadata": {"annotations": {"note": _HOSTILE}}}, None, _MERGE)

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("a", "small")
            await page.wait_text("AgentConnected")
            await page.wait_text("<img src=x onerror=")
            await page.click("summary", "YAML")
            await page.wait("document.querySelector('pre')?.textContent.includes('<img')", "the YAML is shown")
            assert await page.evaluate("document.images.length") == 0
            assert await page.evaluate("document.title") == "small · kvedge"
            assert "\u202e" not in await page.text()
            is_faultless(page, link)

    asyncio.run(test())


@pytest.mark.parametrize("made", ["document.body.innerHTML = '<b>x</b>'", "eval('1')", "new Function('1')"])
def test_no_script_can_make_markup_or_code_of_a_text(link: str, tmp_path: Path, made: str) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("Sign out")
            with pytest.raises(AssertionError, match=r"TrustedHTML|EvalError|TrustedScript"):
                await page.evaluate(made)

    asyncio.run(test())
