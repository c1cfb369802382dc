"""A guest's screen in a browser: keys that a browser keeps, typed texts, a picture, and one viewer at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.codec import JsonObject
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import EchoNode
from tests.support.chromium import Page, chromium_page
from tests.support.played_screen import PlayedScreen

_KEYS = "[aria-label='Keys for the guest']"
_TEXT = "[aria-label='Text for the guest']"
_LAYOUT = "[aria-label='Keyboard layout of the guest']"
# Numbers of keys by XT's set 1.
_CTRL, _ALT, _DELETE, _SHIFT, _ALT_GR, _Q_KEY, _A_KEY, _DIGIT_8, _SPACE, _BACKQUOTE = (
    0x1D,
    0x38,
    0xD3,
    0x2A,
    0xB8,
    0x10,
    0x1E,
    0x09,
    0x39,
    0x29,
)


@pytest.fixture
def screen(echo_node: EchoNode) -> Iterator[PlayedScreen]:
    """What guests of the node have instead of their echo."""
    echo_node.door.screen = PlayedScreen()
    yield echo_node.door.screen
    echo_node.door.screen = None


async def open_screen(page: Page, link: str) -> None:
    """By the list and the VM's page."""
    await page.open(link)
    await page.click("a", "small")
    await page.click("a", "Screen")


async def type_text(page: Page, text: str, layout: str) -> None:
    """By the window for it."""
    await page.click("button", "Type a text")
    await page.evaluate(
        f'document.querySelector("{_TEXT}").value = {json.dumps(text)}, '
        f'document.querySelector("{_LAYOUT}").value = {json.dumps(layout)}, 0'
    )
    await page.click("dialog button.yes")


def test_combinations_and_texts_reach_the_guest_by_its_keyboard(
    guest: JsonObject, screen: PlayedScreen, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_screen(page, link)
            await page.wait_text("connected")
            await page.click("button", "Send the keys")
            await wait_keys(screen, 6)
            assert screen.pressed == [_CTRL, _ALT, _DELETE]
            assert [number for down, _, number in screen.keys if not down] == [_DELETE, _ALT, _CTRL]
            screen.keys.clear()
            await type_text(page, "A@ [^", "de")
            await page.wait_text("6 keys were typed")
            altgr_8 = [_ALT_GR, _DIGIT_8]
            expected = [_SHIFT, _A_KEY, _ALT_GR, _Q_KEY, _SPACE, *altgr_8, _BACKQUOTE, _SPACE]
            assert screen.pressed == expected
            # None is left held down.
            assert sorted(number for down, _, number in screen.keys if not down) == sorted(expected)
            screen.keys.clear()
            await type_text(page, "naïve", "us")
            await page.wait_text("this keyboard layout has no keys for ï")
            assert screen.keys == []
            is_faultless(page, link)

    asyncio.run(test())


def test_a_picture_of_the_screen_is_saved(guest: JsonObject, screen: PlayedScreen, link: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(saved))
            await open_screen(page, link)
            await page.wait_text("connected")
            await page.click("button", "Save a picture")
            async with asyncio.timeout(20):
                while not (saved / "default-small.png").exists():
                    await asyncio.sleep(0.1)
            is_faultless(page, link)

    asyncio.run(test())
    picture = (saved / "default-small.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    # The width and the height of the header.
    assert (int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])) == (64, 48)


def test_a_screen_that_has_a_viewer_is_taken_over_after_a_question(
    guest: JsonObject, screen: PlayedScreen, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path, "--disable-popup-blocking") as page:
            await open_screen(page, link)
            await page.wait_text("connected")
            # Another tab of the same browser.
            await page.evaluate("window.other = window.open(location.href), 0")
            text = "window.other.document.querySelector('dialog')?.innerText ?? ''"
            await page.wait(f"{text}.includes('Somebody else looks at the screen')", "the second one is asked")
            assert "disconnected" not in await page.text()
            await page.evaluate("window.other.document.querySelector('dialog button.yes').click(), 0")
            await page.wait_text("disconnected")
            state = "window.other.document.querySelector('.bar [role=status]').textContent"
            await page.wait(f"{state} === 'connected'", "the second one has it")

    asyncio.run(test())


async def wait_keys(screen: PlayedScreen, count: int) -> None:
    """Until it was told of so many."""
    async with asyncio.timeout(20):
        while len(screen.keys) < count:
            await asyncio.sleep(0.05)
