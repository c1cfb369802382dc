"""Joins a page's websocket with a stream to a guest: bytes both ways, each side held back while the other is slow.

Called by `console_app` once a ticket was good; asks with the user's own rights.
"""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
from aiohttp import web
from msgspec.structs import replace

from kvedge.client.session import Session
from kvedge.client.streams.stream_client import StreamClient, StreamRefused, receive
from kvedge.client.subresources import VMI
from kvedge.resources.relay_protocol import PRESERVE_SESSION
from kvedge.web.sign_in import StreamTarget
from kvedge.web.texts.shown_text import showable

# What a page's websocket is closed with when another viewer has the guest's end, and is not to lose it.
TAKEN_BY_OTHER: Final = 4009
# In bytes; a websocket takes no longer one.
LONGEST_REASON: Final = 120
_PING_SECONDS: Final = 30.0
_SEND_SECONDS: Final = 30.0
_CHUNK: Final = 64 * 1024
_SCREEN: Final = "vnc"


async def stream_to(page: web.WebSocketResponse, session: Session, target: StreamTarget) -> str:
    """Until either side ends, or the guest's end is refused; returns the reason, for the page."""
    keeps_other = target.stream == _SCREEN and not target.takes_over
    async with StreamClient(replace(session, namespace=target.namespace)) as client:
        try:
            query = {PRESERVE_SESSION: "true"} if keeps_other else None
            guest = await client.open(VMI, target.name, target.stream, query, heartbeat=_PING_SECONDS)
        except StreamRefused as refused:
            return showable(refused.message, LONGEST_REASON)
        return await join(page, guest)


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
    if guest.close_code == aiohttp.WSCloseCode.POLICY_VIOLATION:
        # The api role looks again and again whether the user still may.
        return "you are no longer allowed to use this stream"
    return "the guest's end was closed, or another viewer took it over"


async def _send_to_guest(page: web.WebSocketResponse, guest: aiohttp.ClientWebSocketResponse) -> str:
    async for message in page:
        if message.type is aiohttp.WSMsgType.BINARY:
            await guest.send_bytes(message.data)
    return "the viewer left"
