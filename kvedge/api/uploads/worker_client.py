"""The way to the worker of an upload: mutual TLS to its Pod, by a name that only the worker of this claim has.

Used by upload_proxy.py in the server's event loop. A chunk at a time is under way: reading from the client waits while
the worker takes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

import aiohttp
from msgspec import Struct

from kvedge.api.transfer_slots import TransferRefused
from kvedge.resources.disks.uploads import UPLOAD_ID_HEADER, UPLOAD_OFFSET_HEADER, upload_server_name
from kvedge.resources.types.import_job import UPLOAD_PORT
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.tls.certificates import TlsMaterial
from kvedge.runtime.tls.client_tls import ClientTls

_CONNECT_SECONDS: Final = 10.0
# A worker answers with a line.
_LARGEST_ANSWER: Final = 64 << 10
_RESUMING: Final = (UPLOAD_OFFSET_HEADER, UPLOAD_ID_HEADER)


class WorkerAnswer(Struct, frozen=True):
    """What a worker said: status, a line, and how much of which upload it has."""

    status: int
    text: str
    resuming: Mapping[str, str]


class WorkerClient:
    """Calls of workers; made, used and closed in one event loop."""

    # Where workers listen.
    port = UPLOAD_PORT

    def __init__(self, material: Callable[[], TlsMaterial]) -> None:
        """`material` is our newest certificate for workers."""
        self._tls = ClientTls(material)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()

    async def call(
        self,
        address: str,
        claim_uid: str,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: AsyncIterator[bytes] | None = None,
    ) -> WorkerAnswer:
        """Hand an upload on, or ask; there is no time limit once the worker is connected.

        Raises:
            TransferRefused: 503 when the worker cannot be reached or hangs up.
            Exception: what `body` raises, perhaps wrapped by aiohttp.
        """
        try:
            async with self._open_session().request(
                method,
                f"https://{join_address(address, self.port)}{path}",
                headers=dict(headers),
                data=body,
                ssl=self._tls.current(),
                server_hostname=upload_server_name(claim_uid),
                allow_redirects=False,
            ) as response:
                text = await response.content.read(_LARGEST_ANSWER)
                resuming = {name: response.headers[name] for name in _RESUMING if name in response.headers}
                return WorkerAnswer(response.status, text.decode("utf-8", "replace"), resuming)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            detail = str(error) or type(error).__name__
            raise TransferRefused(503, f"the worker of the upload does not answer: {detail}; try again") from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No pool: an upload that broke off leaves a connection that nobody else may continue.
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session
