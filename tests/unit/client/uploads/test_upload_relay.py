"""An image on its way through a server: what reaches the proxy, and what its answers and breaks become."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kvedge.client.errors import RefusedError
from kvedge.client.uploads.upload_relay import RelayedPart, RelayedSource, relay_part
from kvedge.client.uploads.upload_stream import BrokenUpload, ProxyAddress

_PATH = "/proxy/v1beta1/upload-async"


async def pieces(*found: bytes | Exception) -> AsyncIterator[bytes]:
    for each in found:
        if isinstance(each, Exception):
            raise each
        yield each


def relay(
    answer: Callable[[web.Request], Awaitable[web.Response]], part: RelayedPart, *found: bytes | Exception
) -> None:
    """Through a proxy that answers so."""

    async def run() -> None:
        app = web.Application()
        app.router.add_post(_PATH, answer)
        async with asyncio.timeout(30), TestServer(app) as server:
            address = ProxyAddress(f"http://{server.host}:{server.port}/proxy/")
            await relay_part(address, "secret", part, pieces(*found))

    asyncio.run(run())


def test_the_proxy_gets_the_bytes_with_their_length_identity_and_offset() -> None:
    seen: list[tuple[dict[str, str], bytes]] = []

    async def take(request: web.Request) -> web.Response:
        seen.append((dict(request.headers), await request.read()))
        return web.Response()

    relay(take, RelayedPart("upload-async", "id", 0, 6), b"abc", b"def")
    relay(take, RelayedPart("upload-async", "id", 3, 3), b"def")
    (first, whole), (second, rest) = seen
    assert (whole, rest) == (b"abcdef", b"def")
    assert (first["Content-Length"], first["Authorization"], first["X-Kvedge-Upload-Id"]) == (
        "6",
        "Bearer secret",
        "id",
    )
    assert ("X-Kvedge-Upload-Offset" in first, second["X-Kvedge-Upload-Offset"]) == (False, "3")


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, RefusedError), (401, RefusedError), (409, RefusedError), (302, RefusedError)]
    + [(status, BrokenUpload) for status in (408, 416, 500, 503)],
)
def test_an_answer_is_for_good_or_may_be_another_one_later(status: int, error: type[Exception]) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=status, text="why " + "x" * 100_000, headers={"Location": "/elsewhere"})

    with pytest.raises(error, match=f"HTTP {status} why") as refused:
        relay(refuse, RelayedPart("upload-async", "id", 0, 3), b"abc")
    assert len(str(refused.value)) < 5000


def test_a_refusal_before_all_was_sent_is_heard() -> None:
    async def refuse(request: web.Request) -> web.Response:
        await request.content.readany()
        return web.Response(status=400, text="too large")

    with pytest.raises(RefusedError, match="HTTP 400 too large"):
        relay(refuse, RelayedPart("upload-async", "id", 0, 1 << 30), *[b"x" * (1 << 16)] * 200)


def test_what_a_source_says_of_its_end_is_what_is_told() -> None:
    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    with pytest.raises(BrokenUpload, match=r"^the page went$"):
        relay(take, RelayedPart("upload-async", "id", 0, 6), b"abc", BrokenUpload("the page went"))


def test_a_proxy_that_is_not_there_may_be_there_later() -> None:
    async def send() -> None:
        part = RelayedPart("upload-async", "id", 0, 3)
        await relay_part(ProxyAddress("http://127.0.0.1:9"), "secret", part, pieces(b"abc"))

    with pytest.raises(BrokenUpload, match="the upload broke off"):
        asyncio.run(send())


def test_what_a_page_has_is_not_on_this_host() -> None:
    with pytest.raises(RefusedError):
        RelayedSource().open()
    assert RelayedSource(digest="d").identity() == "d"
