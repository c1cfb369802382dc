# Tests: kvedge/web/console_app.py
"""What clients that mean no good get of the console's own port, over real sockets: a refusal, and nobody else waits."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.unit.web.console_pages import Pages, browse


async def tell(pages: Pages, said: bytes) -> bytes:
    """The first line that a connection which says so is answered with."""
    reader, writer = await asyncio.open_connection(pages.client.host, pages.client.port)
    try:
        writer.write(said)
        return await reader.readuntil(b"\r\n")
    finally:
        writer.transport.abort()


def head_of(pages: Pages, first: str, *lines: str) -> bytes:
    return "\r\n".join((first, f"Host: {pages.client.host}:{pages.client.port}", *lines, "", "")).encode()


@pytest.mark.parametrize(
    ("first", "line"),
    [
        pytest.param("GET / HTTP/1.1", f"X-Long: {'a' * 70_000}", id="a header that does not end"),
        pytest.param(f"GET /{'a' * 70_000} HTTP/1.1", "X-Short: a", id="an address that does not end"),
        pytest.param("GET / HTTP/1.1", f"Cookie: {'console=a; ' * 7_000}", id="a cookie of many"),
        pytest.param("GET / HTTP/1.1", "Content-Length: -1", id="a length that is none"),
        pytest.param("no request at all", "X-Short: a", id="no request"),
    ],
)
def test_a_head_that_is_too_long_or_none_is_refused(first: str, line: str) -> None:
    async def test(pages: Pages) -> None:
        assert (await tell(pages, head_of(pages, first, line))).split()[1] == b"400"

    browse(test)


def test_a_body_that_is_too_long_is_refused() -> None:
    async def test(pages: Pages) -> None:
        own = (f"Origin: {pages.origin}", "X-Kvedge-Console: 1", "Content-Type: application/json")
        chunks = b"".join(b"1000\r\n" + b" " * 4096 + b"\r\n" for _ in range(64)) + b"0\r\n\r\n"
        head = head_of(pages, "POST /sign-in HTTP/1.1", *own, "Transfer-Encoding: chunked")
        assert (await tell(pages, head + chunks)).split()[1] == b"413"

    browse(test)


@pytest.mark.parametrize("origin", ["null", "https://evil.example", ""], ids=["a frame", "another site", "none"])
def test_no_other_page_opens_a_websocket_with_a_users_cookie(origin: str) -> None:
    async def test(pages: Pages) -> None:
        headers = {"Cookie": pages.sign_in("ann"), **({"Origin": origin} if origin else {})}
        for path in ("/live", "/stream"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await pages.client.ws_connect(path, headers=headers)
            assert refused.value.status == 403

    browse(test)


def test_a_page_that_sends_a_long_message_to_the_list_is_dropped_and_gives_its_place_back() -> None:
    async def test(pages: Pages) -> None:
        ann = pages.sign_in("ann")
        for _ in range(40):
            live = await pages.open_live(ann)
            await live.send_bytes(bytes(2048))
            assert (await live.receive(10)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
            assert live.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
            await live.close()

    browse(test)


def test_connections_that_say_half_a_request_hold_up_nobody() -> None:
    async def test(pages: Pages) -> None:
        cookie = pages.sign_in("ann")
        halves = [await asyncio.open_connection(pages.client.host, pages.client.port) for _ in range(200)]
        for _, writer in halves:
            writer.write(b"GET /live HTTP/1.1\r\nUpgrade: webso")
        live = await pages.open_live(cookie)
        await live.close()
        for _, writer in halves:
            writer.transport.abort()

    browse(test)
