# Tests: kvedge/web/stream_bridge.py
"""What a page hears of a stream's end, and sides that do not read. Streams themselves: tests/browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kvedge.web import stream_bridge
from kvedge.web.stream_bridge import join

_PIECE: Final = 64 * 1024
# 64 MiB: what the kernel's buffers of both connections and ours hold is a tenth of it.
_MOST: Final = 1024


class Silent:
    """A websocket on which nothing comes: for ever, or until its end with this code."""

    def __init__(self, close_code: int | None = None) -> None:
        self.close_code = close_code
        self.closed = False

    def __aiter__(self) -> Silent:
        return self

    async def __anext__(self) -> Any:
        if self.close_code is None:
            await asyncio.Event().wait()
        raise StopAsyncIteration

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(1008, "you are no longer allowed to use this stream", id="the right was taken away"),
        pytest.param(1000, "the guest's end was closed, or another viewer took it over", id="the guest is gone"),
    ],
)
def test_a_page_hears_why_its_stream_has_ended(code: int, said: str) -> None:
    guest = Silent(code)
    assert asyncio.run(join(cast(Any, Silent()), cast(Any, guest))) == said
    assert guest.closed


@asynccontextmanager
async def bridged(
    guest_side: Callable[[web.WebSocketResponse], Awaitable[None]],
) -> AsyncIterator[tuple[aiohttp.ClientWebSocketResponse, asyncio.Future[str]]]:
    """A page's websocket over real sockets, joined with a guest's; and what the join has returned."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer_guest(request: web.Request) -> web.WebSocketResponse:
        stream = web.WebSocketResponse()
        await stream.prepare(request)
        await guest_side(stream)
        return stream

    async def answer_page(request: web.Request) -> web.WebSocketResponse:
        page = web.WebSocketResponse()
        await page.prepare(request)
        async with client.ws_connect("/guest") as guest:
            ended.set_result(await join(page, guest))
        return page

    app = web.Application()
    app.router.add_get("/guest", answer_guest)
    app.router.add_get("/page", answer_page)
    async with TestClient(TestServer(app)) as client, client.ws_connect("/page") as page:
        yield page, ended


async def flood(send: Callable[[bytes], Awaitable[None]]) -> int:
    """Send numbered pieces until they are taken no more: how many."""
    for number in range(_MOST):
        try:
            await asyncio.wait_for(send(number.to_bytes(4, "big") * (_PIECE // 4)), 1)
        except TimeoutError:
            return number
    return _MOST


def test_a_guest_that_floods_a_page_that_does_not_read_is_held_back_and_nothing_is_lost() -> None:
    async def test() -> None:
        held: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def guest_side(stream: web.WebSocketResponse) -> None:
            held.set_result(await flood(stream.send_bytes))
            await stream.receive()

        async with asyncio.timeout(30), bridged(guest_side) as (page, _):
            sent = await held
            assert 0 < sent < _MOST
            came = b""
            while len(came) < sent * _PIECE:
                came += await page.receive_bytes()
            assert came[: sent * _PIECE] == b"".join(n.to_bytes(4, "big") * (_PIECE // 4) for n in range(sent))

    asyncio.run(test())


def test_a_page_that_floods_a_guest_that_does_not_read_is_held_back() -> None:
    async def test() -> None:
        is_over = asyncio.Event()

        async def guest_side(_: web.WebSocketResponse) -> None:
            await is_over.wait()

        async with asyncio.timeout(30), bridged(guest_side) as (page, _):
            assert 0 < await flood(page.send_bytes) < _MOST
            is_over.set()

    asyncio.run(test())


def test_a_page_that_takes_nothing_any_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_bridge, "_SEND_SECONDS", 0.5)

    async def test() -> None:
        async def guest_side(stream: web.WebSocketResponse) -> None:
            with suppress(ConnectionError):
                for _ in range(_MOST):
                    await stream.send_bytes(bytes(_PIECE))

        async with asyncio.timeout(30), bridged(guest_side) as (_, ended):
            assert await ended == "the connection broke"

    asyncio.run(test())
