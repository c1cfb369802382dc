"""The list with more VMs than lines: what is shown is bounded, the rest is told of and found, and never acted upon."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import remove
from tests.support.builders import small_vmi, vm_of
from tests.support.chromium import chromium_page

_VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
_MERGE = "application/merge-patch+json"
_LINES = 250
_COUNT = _LINES + 5
_ROWS = "document.querySelectorAll('tbody tr').length"


def name_of(number: int) -> str:
    """In the list's order."""
    return f"many-{number:03}"


@pytest.fixture
def many(admin: KubeClient, subresources_answer: None) -> Iterator[None]:
    """More than have a line."""

    def make(number: int) -> None:
        document = vm_of(small_vmi())
        document["metadata"]["name"] = name_of(number)
        document["spec"] |= {"runStrategy": "Halted"}
        admin.request("POST", _VMS, document)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(_COUNT)))
        yield
        list(pool.map(lambda number: remove(admin, f"{_VMS}/{name_of(number)}"), range(_COUNT)))


def test_so_many_have_a_line_and_the_others_are_found_and_shown_when_asked_for(
    admin: KubeClient, many: None, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("and 5 more")
            await page.wait_text(f"{_COUNT} VMs")
            assert await page.evaluate(_ROWS) == _LINES
            # A line that changes is drawn anew by itself: the others, and their choice, stay.
            await page.evaluate("[window.first, window.second] = document.querySelectorAll('tbody tr'), 0")
            patch = {"status": {"printableStatus": "Paused"}}
            await asyncio.to_thread(admin.request, "PATCH", f"{_VMS}/{name_of(0)}/status", patch, None, _MERGE)
            await page.wait("document.querySelector('tbody tr').innerText.includes('Paused')", "its state is shown")
            assert await page.evaluate("document.querySelectorAll('tbody tr')[1] === window.second")
            assert await page.evaluate("document.querySelector('tbody tr') !== window.first")
            # Nothing is done to what has no line.
            await page.evaluate("document.querySelector('thead input').click(), 0")
            await page.click("button", "Start")
            await page.wait_text(f"{_LINES - 1} VMs")
            await page.click("dialog button", "Cancel")
            # What the filter finds has a line, wherever it stood.
            await page.evaluate("document.querySelector('input[type=search]').focus(), 0")
            await page.type(name_of(_COUNT - 1))
            await page.wait(f"{_ROWS} === 1", "it is found")
            await page.evaluate("document.querySelector('input[type=search]').select(), 0")
            await page.type("many")
            await page.click("button", "Show all")
            await page.wait(f"{_ROWS} === {_COUNT}", "all are there")
            assert await page.evaluate(f"document.activeElement.closest('tr')?.rowIndex === {_LINES + 1}")
            assert "more" not in await page.text()
            is_faultless(page, link)

    asyncio.run(test())
