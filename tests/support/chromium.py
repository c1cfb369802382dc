"""Debian's Chromium without a window, led over its DevTools websocket. Console errors and violations are kept.

Used by the browser tier, the console's bench and `packaging/console/pictures`. A driver of a hundred lines: no package
knows less about the page's policy.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

_START_SECONDS = 60.0
_CALL_SECONDS = 30.0
_WAIT_SECONDS = 60.0
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    # Pages speak the language of their browser.
    "--accept-lang=en-US",
)


# Chromium gives up what it loads when a link of the host comes or goes, whatever it loads it from.
_NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
_OPENINGS = 5
# Keys by their names: the code, and what they write.
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "Escape": (27, ""), "F6": (117, "")}
_MODIFIERS = {"Control": 2, "Shift": 8}
_MOST_TABS = 80
_NAME = """(node) => (node.getAttribute("aria-label") ?? node.labels?.[0]?.textContent ?? node.textContent).trim()"""


class Page:
    """One tab. `faults` are console errors, violations of the policy, exceptions, and requests to other hosts."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.faults: list[str] = []
        self.requested: list[str] = []
        self._socket = socket
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())
        self._count = 0

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A method of the DevTools protocol."""
        self._count += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[self._count] = answer
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        async with asyncio.timeout(_CALL_SECONDS):
            document = await answer
        assert "error" not in document, (method, document)
        return document["result"]

    async def begin(self) -> None:
        """Listen to what goes wrong."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")

    async def open(self, address: str) -> None:
        """Go there, as by a new tab; again where links of other tests came or went while its files were loaded."""
        for _ in range(_OPENINGS):
            await self.call("Page.navigate", url=address)
            await self.wait("document.readyState === 'complete'", f"{address} is loaded")
            broken = [fault for fault in self.faults if _NETWORK_CHANGED in fault and "/static/" in fault]
            if not broken:
                return
            # Without all its scripts the page has done nothing: its link is not used up.
            self.faults = [fault for fault in self.faults if fault not in broken]
            await self.call("Page.navigate", url="about:blank")

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression; a promise is awaited."""
        found = await self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
            # The page's policy counts for the tests as well.
            allowUnsafeEvalBlockedByCSP=False,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def text(self) -> str:
        """All text that the page shows."""
        return str(await self.evaluate("document.body?.innerText"))

    async def wait(self, expression: str, what: str) -> None:
        """Until an expression is true."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while not await self.evaluate(f"Boolean({expression})"):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{what}: never; faults {self.faults}; the page: {await self.text()}") from None

    async def wait_text(self, words: str) -> None:
        """Until the page shows it."""
        await self.wait(f"document.body?.innerText.includes({json.dumps(words)})", f"{words!r} is shown")

    async def click(self, selector: str, text: str = "") -> None:
        """The first element of the selector that has this text and can be clicked."""
        find = (
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            f".filter((found) => !found.disabled && found.checkVisibility())"
            f".find((found) => found.textContent.includes({json.dumps(text)}))"
        )
        await self.wait(find, f"{selector} {text!r} can be clicked")
        await self.evaluate(f"{find}.click()")

    async def type(self, text: str) -> None:
        """As a keyboard does, into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, *held: str) -> None:
        """One key of the keyboard, such as Tab, while others are held, such as Shift."""
        code, text = _KEYS[key]
        for type_ in ("keyDown", "keyUp"):
            sent: dict[str, Any] = {"text": text} if text and type_ == "keyDown" else {}
            sent["modifiers"] = sum(_MODIFIERS[each] for each in held)
            await self.call("Input.dispatchKeyEvent", type=type_, key=key, windowsVirtualKeyCode=code, **sent)

    async def tab_to(self, words: str) -> None:
        """By the tab key alone, to what is called so: by its label, its name, or its text."""
        for _ in range(_MOST_TABS):
            await self.press("Tab")
            if await self.evaluate(f"({_NAME})(document.activeElement)") == words:
                return
        raise AssertionError(f"{words!r} is not reached by the tab key; the page: {await self.text()}")

    async def fill(self, label: str, text: str) -> None:
        """As a user does: into the field of that label, instead of what is there."""
        find = f"[...document.querySelectorAll('label')].find((found) => found.textContent === {json.dumps(label)})"
        await self.wait(find, f"the field {label} is there")
        await self.evaluate(f"{find}.control.focus(), {find}.control.select(), 0")
        await self.type(text)

    async def end(self) -> None:
        """Stop listening."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        async for message in self._socket:
            document = json.loads(message.data)
            if "id" in document:
                self._answers.pop(document["id"]).set_result(document)
            else:
                self._note(document["method"], document["params"])

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.faults.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"):
            self.faults.append(json.dumps(told["args"]))
        elif method == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(told["exceptionDetails"]))
        elif method == "Network.requestWillBeSent":
            self.requested.append(told["request"]["url"])


@contextlib.asynccontextmanager
async def chromium_page(directory: Path, *options: str) -> AsyncIterator[Page]:
    """A tab of a browser of its own, with further options of its command line."""
    program = shutil.which("chromium")
    assert program is not None
    profile = directory / "profile"
    log = (directory / "chromium.log").open("wb")
    browser = subprocess.Popen(
        [program, *_OPTIONS, *options, f"--user-data-dir={profile}", "about:blank"], stdout=log, stderr=log
    )
    try:
        port = await _read_port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tab = next(item for item in await answer.json() if item["type"] == "page")
            async with http.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                await page.begin()
                yield page
                await page.end()
    finally:
        browser.terminate()
        browser.wait(20)
        log.close()


async def _read_port(path: Path) -> int:
    async with asyncio.timeout(_START_SECONDS):
        while True:
            with contextlib.suppress(OSError, IndexError, ValueError):
                return int(path.read_text().splitlines()[0])
            await asyncio.sleep(0.1)
