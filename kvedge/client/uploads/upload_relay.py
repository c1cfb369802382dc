"""Hands an image on to an upload proxy while it arrives: for a server between a client and the proxy.

Called by the web console, in its event loop. Holds the piece that is under way and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import BinaryIO, Final

import aiohttp
from msgspec import Struct

from kvedge.client.errors import RefusedError
from kvedge.client.uploads.upload_stream import PASSING, BrokenUpload, ProxyAddress
from kvedge.resources.disks.uploads import UPLOAD_ID_HEADER, UPLOAD_OFFSET_HEADER, UPLOAD_VERSION

_CONNECT_SECONDS: Final = 20.0
_LONGEST_ANSWER: Final = 4096


class RelayedPart(Struct, frozen=True):
    """What is sent: all of an image, or what follows its byte `offset`; `left` bytes, of the upload `identity`."""

    call: str
    identity: str
    offset: int
    left: int


async def relay_part(address: ProxyAddress, token: str, part: RelayedPart, pieces: AsyncIterator[bytes]) -> None:
    """Send the pieces as they come; there is no limit of time once the proxy is connected.

    Raises:
        RefusedError: for good, with the proxy's words.
        BrokenUpload: it did not get there, and may another time.
    """
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/octet-stream",
        "Content-Length": str(part.left),
        UPLOAD_ID_HEADER: part.identity,
    }
    if part.offset:
        headers[UPLOAD_OFFSET_HEADER] = str(part.offset)
    url = f"{address.url.rstrip('/')}/{UPLOAD_VERSION}/{part.call}"
    limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=limits, trust_env=False) as http,
            http.post(url, headers=headers, data=pieces, ssl=address.tls(), allow_redirects=False) as answer,
        ):
            text = (await answer.content.read(_LONGEST_ANSWER)).decode("utf-8", "replace").strip()
            told = f"HTTP {answer.status} {text or answer.reason}"
            if answer.status in PASSING:
                raise BrokenUpload(f"the upload broke off: {told}")
            if answer.status != 200:
                raise RefusedError(f"the upload was refused: {told}")
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        if isinstance(error.__cause__, BrokenUpload):
            # What the pieces' source has said of its end.
            raise error.__cause__ from error
        raise BrokenUpload(f"the upload broke off: {error or type(error).__name__}") from error


class RelayedSource(Struct, frozen=True):
    """An image that somebody else has, who sends it piece by piece."""

    size: int = 0
    digest: str = ""

    def identity(self) -> str:
        """As its owner says it."""
        return self.digest

    def open(self) -> BinaryIO:
        """Not here. Raises RefusedError."""
        raise RefusedError("the image is not on this host")
