"""What the console answers when something goes wrong, in its own form and with its own headers."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import aiohttp
import pytest

from kvedge.client.errors import HostError, TakenError
from kvedge.web import console_app
from kvedge.web.spice_door import SpiceDoor
from kvedge.web.texts.yaml_text import LONGEST
from tests.unit.web.console_pages import Pages, browse


def test_what_nobody_expected_is_logged_and_answered_as_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("not for the page")

    monkeypatch.setattr(console_app, "READS", {"/broken": fail})

    async def test(pages: Pages) -> None:
        status, said = await pages.get("/broken", pages.sign_in("ann"))
        assert (status, said) == (500, {"message": "the console failed at this; its log tells why"})

    with caplog.at_level(logging.ERROR):
        browse(test)
    [record] = [record for record in caplog.records if record.name == console_app.__name__]
    assert record.exc_info is not None
    assert "not for the page" in str(record.exc_info[1])


def test_a_manifest_that_is_too_long_is_answered_with_what_to_do() -> None:
    async def test(pages: Pages) -> None:
        wide = {"yaml": "\N{CJK UNIFIED IDEOGRAPH-6F22}" * (LONGEST // 2)}
        status, said = await pages.post("/new/check/default", pages.sign_in("ann"), wide)
        message = "this manifest is too long for the console: apply it with kubectl"
        assert (status, said) == (413, {"message": message})

    browse(test)


def test_one_user_with_many_pages_leaves_room_for_another() -> None:
    async def test(pages: Pages) -> None:
        ann, bob = pages.sign_in("ann"), pages.sign_in("bob")
        opened = [await pages.open_live(ann) for _ in range(12)]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await pages.open_live(ann)
        assert refused.value.status == 503
        opened.append(await pages.open_live(bob))
        for socket in opened:
            await socket.close()

    browse(test)


def test_a_user_alone_may_open_as_many_as_there_are() -> None:
    async def test(pages: Pages) -> None:
        ann = pages.sign_in("ann")
        opened = [await pages.open_live(ann) for _ in range(32)]
        for socket in opened:
            await socket.close()

    browse(test, of_many=False)


def test_an_image_is_taken_of_those_who_have_signed_in_and_with_its_headers_alone() -> None:
    async def test(pages: Pages) -> None:
        sent = {"Origin": pages.origin, "X-Kvedge-Console": "1", "Content-Type": "application/octet-stream"}
        for cookie, status, words in (("", 401, "not signed in"), (pages.sign_in("ann"), 400, "X-Kvedge-Upload-Id")):
            headers = {**sent, "Cookie": cookie}
            async with pages.client.post("/uploads/shop/disk/data", data=b"x", headers=headers) as answer:
                assert answer.status == status
                assert words in (await answer.json())["message"]

    browse(test)


def test_a_page_that_leaves_while_its_stream_opens_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The API server is still being asked for the VM when nobody waits for the stream any more."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def find_run(*_: Any) -> str:
        is_asked.set()
        may_answer.wait(20)
        return "one"

    async def test(pages: Pages) -> None:
        monkeypatch.setattr(console_app, "find_run", lambda *_: "one")
        cookie = pages.sign_in("ann")
        _, told = await pages.post("/tickets", cookie, {"namespace": "shop", "name": "web", "stream": "console"})
        monkeypatch.setattr(console_app, "find_run", find_run)
        tasks = asyncio.all_tasks()
        _, writer = await asyncio.open_connection(pages.client.host, pages.client.port)
        writer.write(_ask_stream(pages, cookie, told["ticket"]))
        await asyncio.to_thread(is_asked.wait, 20)
        serving = asyncio.all_tasks() - tasks
        writer.transport.abort()
        # The server keeps a lost one among them until it is answered.
        while all(connection.transport for connection in pages.connections()):
            await asyncio.sleep(0.01)
        may_answer.set()
        await asyncio.wait(serving)

    with caplog.at_level(logging.WARNING):
        browse(test)
    assert is_asked.is_set()
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (None, ("INFO", "the screen of shop/web by SPICE has ended: the viewer left")),
        (HostError("no room"), ("WARNING", "the screen of shop/web by SPICE has ended: no room")),
        (ValueError(), ("WARNING", "the screen of shop/web by SPICE has ended: ValueError")),
    ],
    ids=["its viewer left", "it failed", "it failed without words"],
)
def test_the_end_of_a_screen_by_spice_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: Exception | None, told: tuple[str, str]
) -> None:
    async def keep_door(_session: Any, door: SpiceDoor) -> str:
        door.file.set_result("[virt-viewer]")
        await asyncio.sleep(0)
        if end is not None:
            raise end
        return "the viewer left"

    async def test(pages: Pages) -> None:
        answer = await pages.post("/vms/shop/web/spice", pages.sign_in("ann"), {})
        assert answer == (200, {"file": "[virt-viewer]"})
        while not caplog.records:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(console_app, "keep_spice_door", keep_door)
    with caplog.at_level(logging.INFO, "kvedge.web"):
        browse(test, of_many=False)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [told]


def test_a_screen_by_spice_that_cannot_be_had_is_told_to_its_page_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def keep_door(*_: Any) -> str:
        raise HostError("no room")

    async def test(pages: Pages) -> None:
        answer = await pages.post("/vms/shop/web/spice", pages.sign_in("ann"), {})
        assert answer == (409, {"message": "no room"})

    monkeypatch.setattr(console_app, "keep_spice_door", keep_door)
    with caplog.at_level(logging.INFO, "kvedge.web"):
        browse(test, of_many=False)
    assert caplog.records == []


def test_a_screen_by_spice_that_somebody_looks_at_is_taken_over_by_a_word_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def keep_door(_session: Any, door: SpiceDoor) -> str:
        if not door.takes_over:
            raise TakenError("Active SPICE connection. Request denied.")
        door.file.set_result("[virt-viewer]")
        return "the viewer left"

    async def test(pages: Pages) -> None:
        ann = pages.sign_in("ann")
        for body in ({}, {"takesOver": False}):
            assert await pages.post("/vms/shop/web/spice", ann, body) == (200, {"taken": True})
        assert await pages.post("/vms/shop/web/spice", ann, {"takesOver": True}) == (200, {"file": "[virt-viewer]"})
        assert (await pages.post("/vms/shop/web/spice", ann, {"takesOver": "yes"}))[0] == 400

    monkeypatch.setattr(console_app, "keep_spice_door", keep_door)
    browse(test, of_many=False)


def test_a_session_has_one_unused_door_to_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """More files than there are places: each is the only one of its screen, and the latest one works."""
    doors: list[SpiceDoor] = []
    ended: list[SpiceDoor] = []

    async def keep_door(_session: Any, door: SpiceDoor) -> str:
        doors.append(door)
        door.file.set_result("[virt-viewer]")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(door)
        return ""

    async def test(pages: Pages) -> None:
        ann = pages.sign_in("ann")
        for _ in range(40):
            assert (await pages.post("/vms/shop/web/spice", ann, {}))[0] == 200
        assert ended == doors[:-1]
        # Neither another screen, nor another session, nor one with a viewer ends it.
        assert (await pages.post("/vms/shop/other/spice", ann, {}))[0] == 200
        assert (await pages.post("/vms/shop/web/spice", pages.sign_in("ann"), {}))[0] == 200
        doors[39].is_used = True
        assert (await pages.post("/vms/shop/web/spice", ann, {}))[0] == 200
        assert len(ended) == 39

    monkeypatch.setattr(console_app, "keep_spice_door", keep_door)
    browse(test, of_many=False)
    assert len(ended) == len(doors) == 43


def test_who_waits_for_a_file_while_another_one_is_asked_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    is_asked = asyncio.Event()

    async def keep_door(_session: Any, door: SpiceDoor) -> str:
        if not is_asked.is_set():
            is_asked.set()
            await asyncio.Event().wait()
        door.file.set_result("[virt-viewer]")
        return ""

    async def test(pages: Pages) -> None:
        ann = pages.sign_in("ann")
        first = asyncio.ensure_future(pages.post("/vms/shop/web/spice", ann, {}))
        await is_asked.wait()
        assert (await pages.post("/vms/shop/web/spice", ann, {}))[0] == 200
        assert await first == (409, {"message": "another viewer's file of this screen was asked for since"})

    monkeypatch.setattr(console_app, "keep_spice_door", keep_door)
    browse(test, of_many=False)


def _ask_stream(pages: Pages, cookie: str, ticket: str) -> bytes:
    lines = (
        "GET /stream HTTP/1.1", f"Host: {pages.client.host}:{pages.client.port}", f"Origin: {pages.origin}",
        f"Cookie: {cookie}", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"Sec-WebSocket-Protocol: ticket.kvedge.io.{ticket}, plain.kubevirt.io", "", "",
    )  # fmt: skip
    return "\r\n".join(lines).encode()
