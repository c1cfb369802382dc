"""Joins a page's websocket with a stream to a guest: bytes both ways, each side held back while the other is slow.

Called by `console_app` once a ticket was good.
"""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
from aiohttp import web

from kvedge.client.streams.stream_client import receive

_SEND_SECONDS: Final = 30.0
_CHUNK: Final = 64 * 1024


async def join(page: web.WebSocketResponse, guest: aiohttp.ClientWebSocketResponse) -> str:
    """Until either side ends; returns who did, for the page."""
    from_guest = asyncio.create_task(_send_to_page(page, guest))
    from_page = asyncio.create_task(_send_to_guest(page, guest))
    try:
        done, _ = await asyncio.wait({from_guest, from_page}, return_when=asyncio.FIRST_COMPLETED)
        return next((task.result() for task in done if task.exception() is None), "the connection broke")
    finally:
        for task in (from_guest, from_page):
            task.cancel()
        await asyncio.gather(from_guest, from_page, return_exceptions=True)
        await guest.close()


async def _send_to_page(page: web.WebSocketResponse, guest: aiohttp.ClientWebSocketResponse) -> str:
    async for data in receive(guest):
        for start in range(0, len(data), _CHUNK):
            async with asyncio.timeout(_SEND_SECONDS):
                await page.send_bytes(data[start : start + _CHUNK])
    return "the guest's end was closed, or another viewer took it over"


async def _send_to_guest(page: web.WebSocketResponse, guest: aiohttp.ClientWebSocketResponse) -> str:
    async for message in page:
        if message.type is aiohttp.WSMsgType.BINARY:
            await guest.send_bytes(message.data)
    return "the viewer left"
