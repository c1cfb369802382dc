"""An image on its way from a page to the upload proxy: read at the page's pace, a piece at a time.

Called by `console_app` in its event loop. Nothing of it is kept here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from kvedge.client.uploads.upload_relay import RelayedPart, relay_part
from kvedge.client.uploads.upload_stream import BrokenUpload
from kvedge.resources.disks.uploads import ASYNC, SYNC, UPLOAD_ID_HEADER, UPLOAD_OFFSET_HEADER
from kvedge.web.images.image_calls import UploadTarget

CALL_HEADER: Final = "X-Kvedge-Upload-Call"
# A page that sends nothing for so long is gone; a slower one is judged by the proxy.
_PATIENCE: Final = 60.0
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def part_of(request: web.Request) -> RelayedPart:
    """What the page says that it sends.

    Raises:
        web.HTTPBadRequest: with the header that is wrong.
    """
    if request.content_length is None:
        raise web.HTTPLengthRequired(reason="Content-Length: needed")
    identity = request.headers.get(UPLOAD_ID_HEADER, "")
    offset = request.headers.get(UPLOAD_OFFSET_HEADER, "0")
    call = request.headers.get(CALL_HEADER, ASYNC)
    if not _DIGEST.fullmatch(identity):
        raise web.HTTPBadRequest(reason=f"{UPLOAD_ID_HEADER}: must be 64 hexadecimal digits")
    if not _NUMBER.fullmatch(offset):
        raise web.HTTPBadRequest(reason=f"{UPLOAD_OFFSET_HEADER}: must be a number of bytes")
    if call not in (ASYNC, SYNC):
        raise web.HTTPBadRequest(reason=f"{CALL_HEADER}: use {ASYNC} or {SYNC}")
    return RelayedPart(call, identity, int(offset), request.content_length)


async def send_part(request: web.Request, target: UploadTarget, part: RelayedPart) -> None:
    """Hand the request's body on.

    Raises:
        ClientError: it was refused, or broke off.
    """
    await relay_part(target.address, target.token, part, _pieces(request))


async def _pieces(request: web.Request) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(_PATIENCE):
                piece = await request.content.readany()
        except TimeoutError as error:
            raise BrokenUpload(f"the page has sent nothing for {_PATIENCE:g} seconds") from error
        if not piece:
            return
        yield piece
