"""The console in German: by the browser's language or by choice, within a phone's width, and for screen readers."""

from __future__ import annotations

import asyncio
import json
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
_MERGE = "application/merge-patch+json"
_GERMAN = "--accept-lang=de-DE,de,en"
_PHONE = 360
_WORDS = "age, bytes, moment, percent, plural, said, t"
_PAGES = (
    "Virtuelle Maschinen", "Neue VM", "Knoten", "Volumes", "Images", "Netzwerke", "Aufgaben", "Alarme",
    "Einstellungen", "Benutzer",
)  # fmt: skip
# What reaches beyond the page's width, besides what scrolls by itself.
_TOO_WIDE = """[...document.querySelectorAll('body *')].filter((node) => node.checkVisibility()
  && node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.scroll, .terminal-frame, pre, dialog'))
  .map((node) => node.outerHTML.slice(0, 120))"""


@pytest.fixture
def vm(admin: KubeClient, subresources_answer: None) -> Iterator[JsonObject]:
    """A VM that does not run."""
    document = vm_of(small_vmi())
    document["metadata"]["name"] = "shown"
    document["spec"] |= {"runStrategy": "Halted"}
    yield admin.request("POST", _VMS, document)
    remove(admin, f"{_VMS}/shown")


async def choose(page: Page, code: str, name: str) -> None:
    """A language, as a user does; until the page is there in it."""
    await page.click("#languages button", name)
    await page.wait(f"document.documentElement?.lang === {json.dumps(code)}", f"it is in {name}")
    await page.wait("document.querySelector('#languages button')", "another one can be chosen")


async def open_place(page: Page, name: str) -> None:
    """By its link."""
    await page.click("nav a", name)
    current = "document.querySelector('nav [aria-current]')?.textContent"
    await page.wait(f"{current} === {json.dumps(name)}", f"{name} is shown")
    await page.wait("document.querySelector('h1')", "it has a heading")


def test_a_german_browser_gets_german_and_its_user_may_choose_english(
    admin: KubeClient, vm: JsonObject, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path, _GERMAN) as page:
            await page.open(link)
            await page.wait_text("Abmelden")
            assert await page.evaluate("document.documentElement.lang") == "de"
            await page.wait_text("1 VM")
            # What KubeVirt calls it is not translated, and neither are names.
            admin.request("PATCH", f"{_VMS}/shown", {"status": {"printableStatus": "Stopped"}}, None, _MERGE)
            await page.wait_text("Stopped")
            await page.click("input[aria-label='default/shown wählen']")
            await page.click("button", "Starten")
            await page.wait_text("Starten: für default/shown angefordert")
            await choose(page, "en", "English")
            await page.wait_text("Sign out")
            await page.open(page_of(link))
            await page.wait_text("Virtual machines")
            await choose(page, "de", "Deutsch")
            await page.wait_text("Virtuelle Maschinen")
            is_faultless(page, link)

    asyncio.run(test())


def test_another_language_is_loaded_by_those_who_read_it_alone(link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path, "--accept-lang=fr,en") as page:
            await page.open(link)
            await page.wait_text("Sign out")
            assert not [url for url in page.requested if "_de.js" in url]
            await choose(page, "de", "Deutsch")
            await page.wait_text("Abmelden")
            loaded = [url.rpartition("/")[2] for url in page.requested if "_de.js" in url]
            assert loaded == ["words_de.js", "said_de.js"]
            is_faultless(page, link)

    asyncio.run(test())


def test_what_the_program_and_the_server_say_of_a_form(link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path, _GERMAN) as page:
            await page.open(link)
            await open_place(page, "Neue VM")
            await page.fill("Name", "neue")
            await page.fill("Image", "local/debian:12")
            await page.fill("CPUs", "viele")
            # The program's words.
            await page.wait_text("eine ganze Zahl von 1 bis 512")
            await page.fill("CPUs", "1")
            await page.fill("Image", "a b")
            await page.wait_text("'a b' ist kein Image: einen Namen wie local/debian:12 schreiben")
            await page.fill("Image", "local/debian:12")
            await page.fill("RAM", "many")
            await page.click("button", "Prüfen")
            # The API server's words.
            await page.wait("document.querySelector('[aria-invalid], .faults:not([hidden])')", "it is refused")
            await page.fill("RAM", "64Mi")
            await page.click("button", "Prüfen")
            await page.wait_text("der Server nimmt es an")

    asyncio.run(test())


def test_words_numbers_and_times_are_those_of_the_language(link: str, tmp_path: Path) -> None:
    told = {
        "t('{vm} was created', {vm: '$& {vm}'})": "$& {vm} wurde angelegt",
        "t('and {count} more', {count: 1234567})": "und 1.234.567 weitere",
        "plural(1, '{count} VM', '{count} VMs')": "1 VM",
        "plural(2000, 'Paste {count} line into the guest?', 'Paste {count} lines into the guest?')": (
            "2.000 Zeilen in den Gast einfügen?"
        ),
        "bytes(1.5 * 2 ** 30)": "1,5 GiB",
        "percent(25)": "25\N{NO-BREAK SPACE}%",
        "age(new Date(Date.now() - 3 * 86400e3 - 5e3).toISOString())": "3 T",
        "moment(new Date(2026, 0, 2, 3, 4))": "02.01.2026, 03:04",
        # What the program says, with a sentence in another; what somebody else says stays, whatever it is.
        "said('not signed in: sign in')": "nicht angemeldet: bitte anmelden",
        "said('name \\'a/b\\': may not have \\'/\\' in it')": "Name 'a/b': '/' darf nicht darin stehen",
        "said('admission webhook denied the request')": "admission webhook denied the request",
        "said('constructor') + said('__proto__') + t('toString')": "constructor__proto__toString",
        "said('a: use b or '.repeat(5000)).length": 60000,
    }

    async def test() -> None:
        async with chromium_page(tmp_path, "--accept-lang=de-DE") as page:
            await page.open(link)
            await page.wait_text("Abmelden")
            for call, said in told.items():
                assert await page.evaluate(f"import('/static/words/words.js').then(({{{_WORDS}}}) => {call})") == said

    asyncio.run(test())


@pytest.mark.parametrize("width", [_PHONE, 800])
def test_german_pages_fit_a_phone_and_axe_finds_nothing(
    guest: JsonObject, vm: JsonObject, link: str, axe: str, tmp_path: Path, width: int
) -> None:
    found: dict[str, list[str]] = {}

    async def test() -> None:
        async with chromium_page(tmp_path, _GERMAN) as page:

            async def judge(name: str) -> None:
                wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
                widths = await page.evaluate(_TOO_WIDE) if wide else []
                found[name] = [*widths, *await findings(page, axe)]

            size = {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width == _PHONE}
            await page.call("Emulation.setDeviceMetricsOverride", **size)
            await page.open(link)
            await page.wait_text("shown")
            for name in _PAGES:
                await open_place(page, name)
                await judge(name)
            await open_place(page, "Neue VM")
            await page.click("button", "Anlegen")
            await page.wait_text("wird benötigt")
            await judge("a form with a fault")
            await open_place(page, "Images")
            await page.click("summary", "Image hochladen")
            await page.wait_text("Datenträgergröße")
            await judge("an upload")
            await open_place(page, "Virtuelle Maschinen")
            await page.click("tbody a", "small")
            await page.wait("document.querySelectorAll('figure svg').length === 4", "graphs are drawn")
            for title in ("Snapshots", "Migrationen", "YAML"):
                await page.click("summary", title)
            await page.wait("document.querySelector('pre')", "the YAML is shown")
            await judge("a VM that runs")
            await page.click("a", "Serielle Konsole")
            await page.wait("document.querySelector('.xterm-helper-textarea')", "the console is there")
            await judge("a console")
            await page.click("a", "Zurück zur VM")
            await page.click("a", "Bildschirm")
            await page.wait("document.querySelector('.screen-frame canvas')", "the screen is there")
            await judge("a screen")

    asyncio.run(test())
    assert {name: faults for name, faults in found.items() if faults} == {}


def page_of(link: str) -> str:
    """Without the secret, which is used up."""
    return link.partition("#")[0]
