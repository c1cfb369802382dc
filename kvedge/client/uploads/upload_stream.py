"""Sends an image to an upload proxy, and goes on where it was broken off when the proxy's worker can.

Called by image_upload.py. Works with any proxy of CDI's; only kvedge's tells how far a broken upload is. Blocks, and
holds a piece of it at a time.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable
from typing import BinaryIO, Final
from urllib.parse import urlsplit

from msgspec import Struct

from kvedge.client.errors import ClientError, RefusedError, TimedOutError, UsageError
from kvedge.client.uploads.upload_source import UploadSource
from kvedge.resources.disks.uploads import ASYNC, SYNC, UPLOAD_ID_HEADER, UPLOAD_OFFSET_HEADER, UPLOAD_VERSION

_PIECE: Final = 256 << 10
_CONNECT_SECONDS: Final = 20.0
# A disk at the other end may be busy, and the last answer waits for a conversion.
_SILENT_SECONDS: Final = 600.0
# No disk is behind this question; the proxy waits for its worker for ten seconds.
_PROBE_SECONDS: Final = 60.0
_LONGEST_ANSWER: Final = 4096
# The same request may succeed later.
PASSING: Final = frozenset({408, 416, 429, 500, 502, 503, 504})
_MOST_PAUSE: Final = 10.0


class ProxyAddress(Struct, frozen=True):
    """Where the proxy is, and whom to trust there: an authority as PEM, the system's when empty, or anybody."""

    url: str
    ca: str = ""
    insecure: bool = False

    def tls(self) -> ssl.SSLContext:
        """The context of a connection. Raises UsageError for an authority that is none."""
        context = ssl.create_default_context()
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif self.ca:
            try:
                context.load_verify_locations(cadata=self.ca)
            except ssl.SSLError as error:
                raise UsageError(f"the authority in CDIConfig's uploadProxyCA cannot be used: {error}") from error
        return context


class BrokenUpload(TimedOutError):
    """The data did not get there; what the proxy has of it, it keeps for a while."""


class _Broken(Exception):
    """This attempt failed; the next one may not."""


class UploadStream:
    """One image to one proxy."""

    def __init__(
        self,
        address: ProxyAddress,
        source: UploadSource,
        token: Callable[[], str],
        show: Callable[[int, int], None],
        pause: Callable[[float], None],
    ) -> None:
        """`token` asks for a new one; `show` gets what has been sent and how much there is; `pause` waits."""
        self._address = address
        self._source = source
        self._token = token
        self._show = show
        self._pause = pause

    def send(self, tries: int) -> None:
        """Send all of it; `tries` counts attempts one after the other in which nothing more got there.

        Raises:
            RefusedError: the proxy or the worker refuses it for good; with its words.
            ClientError: it did not get there.
        """
        identity, size = self._source.identity(), self._source.size
        failed, furthest = 0, 0
        while True:
            try:
                self._attempt(identity, size)
            except _Broken as error:
                reached = self._reached
                failed = 0 if reached > furthest else failed + 1
                furthest = max(reached, furthest)
                if failed >= tries:
                    raise ClientError(f"the upload to {self._address.url} failed: {error}") from error
                self._pause(min(_MOST_PAUSE, 0.5 * 2**failed))
            else:
                return

    def find_offset(self, identity: str) -> tuple[str, int]:
        """The call for this upload, and the byte at which it goes on.

        Raises:
            BrokenUpload: the proxy does not answer now.
            ClientError: it takes nothing of us.
        """
        try:
            return self._probe(self._token(), identity)
        except _Broken as error:
            raise BrokenUpload(f"{self._address.url} does not answer: {error}") from error

    _reached = 0

    def _attempt(self, identity: str, size: int) -> None:
        token = self._token()
        call, offset = self._probe(token, identity)
        connection = self._connection()
        try:
            with self._source.open() as source:
                source.seek(offset)
                self._begin(connection, call, token, identity, offset, size - offset)
                self._pour(connection, source, offset, size)
            response = connection.getresponse()
            text = response.read(_LONGEST_ANSWER).decode("utf-8", "replace").strip()
        except ssl.SSLCertVerificationError as error:
            raise _distrust(self._address.url, error) from error
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if response.status == 200:
            return
        told = f"HTTP {response.status} {text or response.reason}"
        if response.status in PASSING:
            raise _Broken(told)
        raise RefusedError(f"the upload was refused: {told}")

    def _probe(self, token: str, identity: str) -> tuple[str, int]:
        """The call to use, and the byte to begin at."""
        connection = self._connection()
        connection.sock.settimeout(_PROBE_SECONDS)
        try:
            connection.request("HEAD", self._path(ASYNC), headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
        except ssl.SSLCertVerificationError as error:
            raise _distrust(self._address.url, error) from error
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if response.status in (401, 403):
            raise RefusedError(f"{self._address.url} does not take our token: HTTP {response.status}")
        if response.status != 200:
            return SYNC, 0
        offset = response.headers.get(UPLOAD_OFFSET_HEADER, "0")
        if response.headers.get(UPLOAD_ID_HEADER) != identity or not offset.isdigit():
            return ASYNC, 0
        return ASYNC, int(offset)

    def _begin(
        self, connection: http.client.HTTPSConnection, call: str, token: str, identity: str, offset: int, left: int
    ) -> None:
        connection.putrequest("POST", self._path(call))
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        headers |= {"Content-Length": str(left), UPLOAD_ID_HEADER: identity}
        if offset:
            headers[UPLOAD_OFFSET_HEADER] = str(offset)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()

    def _pour(self, connection: http.client.HTTPSConnection, source: BinaryIO, offset: int, size: int) -> None:
        sent = offset
        self._show(sent, size)
        try:
            while piece := source.read(_PIECE):
                connection.send(piece)
                sent += len(piece)
                self._reached = sent
                self._show(sent, size)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            # It may have been answered before all was sent; the answer says why.
            return

    def _connection(self) -> http.client.HTTPSConnection:
        parts = urlsplit(self._address.url)
        if parts.scheme != "https" or not parts.hostname:
            raise UsageError(f"the upload proxy's URL {self._address.url!r} is not https://HOST:PORT")
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port or 443, context=self._address.tls(), timeout=_CONNECT_SECONDS
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise _distrust(self._address.url, error) from error
        except OSError as error:
            raise _Broken(f"it cannot be reached: {error}") from error
        connection.sock.settimeout(_SILENT_SECONDS)
        return connection

    def _path(self, call: str) -> str:
        return f"{urlsplit(self._address.url).path.rstrip('/')}/{UPLOAD_VERSION}/{call}"


def _distrust(url: str, error: ssl.SSLCertVerificationError) -> ClientError:
    return ClientError(
        f"the certificate of {url} is not to be trusted: {error.verify_message}; name its authority in CDIConfig, or"
        " add --insecure"
    )
