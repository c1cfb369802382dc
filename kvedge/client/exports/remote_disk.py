"""One exported disk on an export's server, read chunk by chunk over HTTPS, and gone on with where a connection broke.

Called by exports. Only what a disk's map says is data is fetched, where the server has maps; a server without them,
such as KubeVirt's, is read from the first byte to the last. Each answer must fit what was asked for: nothing of
another state of the disk gets among the rest. Blocks, and holds a chunk.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from kvedge.client.errors import ClientError, RefusedError, UsageError

# The grid on which disks are read: small enough to be held, large enough for a compression to be worth it.
CHUNK: Final = 4 << 20
# QEMU addresses no larger one with qcow2's usual clusters.
LARGEST_DISK: Final = 64 << 40
TOKEN_HEADER: Final = "x-kubevirt-export-token"
_CONNECT_SECONDS: Final = 20.0
_SILENT_SECONDS: Final = 120.0
_PIECE: Final = 1 << 20
# Half a minute, in which an API server starts again.
_TRIES: Final = 8
_MOST_PAUSE: Final = 10.0
# A page of a map has 512 extents.
_LONGEST_PAGE: Final = 1 << 20
_MOST_EXTENTS: Final = 4096
# The same request may succeed later: the exporter's Pod is made anew, or a proxy waits for it.
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})


class ExportAddress(Struct, frozen=True):
    """Where an exported disk is, whom to trust there, and the token."""

    url: str
    ca: str
    token: str

    def tls(self, *, insecure: bool = False) -> ssl.SSLContext:
        """The context of a connection: it trusts the export's authority, or the system's when it names none."""
        context = ssl.create_default_context()
        if insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context
        if self.ca:
            try:
                context.load_verify_locations(cadata=self.ca)
            except ssl.SSLError as error:
                raise ClientError(f"the certificate in the export's links cannot be used: {error}") from error
        return context


class _Broken(Exception):
    """This attempt failed; the next one may not."""


class RemoteDisk:
    """One disk; used by one thread."""

    def __init__(self, address: ExportAddress, pause: Callable[[float], None], *, insecure: bool = False) -> None:
        """`pause` waits for so many seconds before another attempt; `insecure` takes any certificate."""
        self._address = address
        self._pause = pause
        self._parts = urlsplit(address.url)
        if self._parts.scheme != "https" or not self._parts.hostname:
            raise UsageError(f"the export's link {address.url[:200]!r} is not https://HOST/…")
        self._tls = address.tls(insecure=insecure)
        self._connection: http.client.HTTPSConnection | None = None
        self._state: tuple[str, str] | None = None
        self._size: int | None = None

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read_size(self) -> int:
        """The disk's size in bytes."""
        if self._size is None:
            response, _ = self._patiently("HEAD", "")
            if response.status != 200:
                raise self._refusal(response)
            length = response.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdigit() and 0 < int(length) <= LARGEST_DISK):
                raise RefusedError(f"the export tells no size of its disk at {self._parts.path}")
            self._note_state(response)
            self._size = int(length)
        return self._size

    def find_ranges(self) -> Iterator[tuple[int, int]]:
        """The parts that hold data, as begin and end on the chunks' grid, in order; the last may end with the disk."""
        size = self.read_size()
        begun: tuple[int, int] | None = None
        for offset, length in self._extents(size):
            start, end = offset - offset % CHUNK, min(size, offset + length + -(offset + length) % CHUNK)
            if begun is not None and start <= begun[1]:
                begun = (begun[0], max(begun[1], end))
                continue
            if begun is not None:
                yield begun
            begun = (start, end)
        if begun is not None:
            yield begun

    def read_chunks(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """A part, chunk by chunk with their places; on a broken connection it goes on with the chunk that is missing.

        Raises:
            RefusedError: the server refuses it, or has another disk by now.
            ClientError: it cannot be reached.
        """
        failed, position = 0, start
        while position < end:
            try:
                for chunk in self._stream(position, end):
                    yield position, chunk
                    position += len(chunk)
                    failed = 0
            except (_Broken, OSError, http.client.HTTPException) as error:
                failed = self._wait_after(failed, error)

    def _stream(self, start: int, end: int) -> Iterator[bytes]:
        response = self._ask("GET", "", {"Range": f"bytes={start}-{end - 1}"})
        expected = f"bytes {start}-{end - 1}/{self._size}"
        if response.status == 206 and response.headers.get("Content-Range", "") != expected:
            raise RefusedError(f"the export sends another part than it was asked for: {expected} was meant")
        if response.status != 206 and not (response.status == 200 and (start, end) == (0, self._size)):
            raise self._refusal(response)
        self._note_state(response)
        left = end - start
        while left:
            wanted = min(CHUNK, left)
            parts: list[bytes] = []
            have = 0
            while have < wanted:
                piece = response.read(min(_PIECE, wanted - have))
                if not piece:
                    raise _Broken("the connection ended in the middle")
                parts.append(piece)
                have += len(piece)
            left -= wanted
            yield b"".join(parts)
        # Read to its end, so that the connection serves for the next part.
        response.read(1)

    def _extents(self, size: int) -> Iterator[tuple[int, int]]:
        offset: int | None = 0
        last = 0
        while offset is not None:
            page = self._read_page(offset)
            if page is None:
                yield 0, size
                return
            if page.get("size") != size:
                raise RefusedError(f"the export's map is of another disk: it has {page.get('size')} bytes, not {size}")
            for found in page["extents"]:
                start, length = found["offset"], found["length"]
                if start < last or length <= 0 or start + length > size:
                    raise RefusedError("the export's map is broken: its parts are not in order, or outside the disk")
                last = start + length
                yield start, length
            following = page.get("next_offset")
            if following is not None and not offset < following < size:
                raise RefusedError("the export's map is broken: it does not get on")
            offset = following

    def _read_page(self, offset: int) -> dict[str, Any] | None:
        """One page of the map; None where the server has no maps."""
        response, body = self._patiently("GET", f".map?offset={offset}")
        if response.status in (400, 404, 405, 501) and not offset:
            return None
        if response.status != 200:
            raise self._refusal(response)
        try:
            page: dict[str, Any] = json.loads(body)
            extents = page["extents"]
            numbers = [value for found in extents for value in (found["offset"], found["length"])]
            if not all(type(value) is int and value >= 0 for value in numbers) or len(extents) > _MOST_EXTENTS:
                raise ValueError("no list of places")
            if type(page.get("next_offset")) not in (int, type(None)):
                raise ValueError("no next place")
        except (ValueError, KeyError, TypeError) as error:
            raise RefusedError(f"the export's map cannot be read: {str(error)[:100]}") from error
        return page

    def _patiently(self, method: str, suffix: str) -> tuple[http.client.HTTPResponse, bytes]:
        """A short answer, however often the connection breaks."""
        failed = 0
        while True:
            try:
                response = self._ask(method, suffix, {})
                return response, response.read(_LONGEST_PAGE)
            except (_Broken, OSError, http.client.HTTPException) as error:
                failed = self._wait_after(failed, error)

    def _ask(self, method: str, suffix: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        connection = self._connection
        if connection is None or connection.sock is None:
            # An exporter may answer one call on each connection.
            connection = self._connection = self._connect()
        path = f"{self._parts.path}{suffix}"
        connection.request(method, path, headers={TOKEN_HEADER: self._address.token, **headers})
        response = connection.getresponse()
        if response.status in _PASSING:
            raise _Broken(f"HTTP {response.status} {response.reason}")
        return response

    def _connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(
            str(self._parts.hostname), self._parts.port or 443, context=self._tls, timeout=_CONNECT_SECONDS
        )
        connection.connect()
        connection.sock.settimeout(_SILENT_SECONDS)
        return connection

    def _wait_after(self, failed: int, error: Exception) -> int:
        """Hang up, and wait for the next attempt; raises ClientError when there were enough."""
        self.close()
        if isinstance(error, ssl.SSLCertVerificationError):
            raise RefusedError(
                f"the certificate of {self._parts.netloc} is not to be trusted: {error.verify_message}"
            ) from error
        if failed + 1 >= _TRIES:
            why = str(error) or type(error).__name__
            raise ClientError(f"the export's server {self._parts.netloc} cannot be reached: {why}") from error
        self._pause(min(_MOST_PAUSE, 0.5 * 2**failed))
        return failed + 1

    def _note_state(self, response: http.client.HTTPResponse) -> None:
        """Whether it is still the disk that it was: a guest that was started meanwhile has written it."""
        state = (response.headers.get("ETag", ""), response.headers.get("Last-Modified", ""))
        if self._state is None:
            self._state = state
        if state != self._state:
            raise RefusedError(
                "the disk has changed while it was read: its VM was started; stop it and export again, or export a "
                "snapshot"
            )

    def _refusal(self, response: http.client.HTTPResponse) -> RefusedError:
        self.close()
        return RefusedError(f"the export's server refuses {self._parts.path}: HTTP {response.status} {response.reason}")
