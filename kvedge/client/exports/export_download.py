"""Downloads one volume of an export, or its manifests, into a file or onto a stream.

Called by `kvedge vmexport download` and `kvedge memory-dump download`. Talks to the export's server. A raw disk is read
by its map and gone on with where a connection broke, and its holes stay holes; what is made while it is sent (gzip,
tar) begins anew.
"""

from __future__ import annotations

import http.client
import os
import ssl
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO, Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from kvedge.client.errors import ClientError, NotFoundError, RefusedError, UsageError
from kvedge.client.exports.remote_disk import TOKEN_HEADER, ExportAddress, RemoteDisk
from kvedge.resources.codec import JsonObject
from kvedge.storage.sparse_file import write_blocks

RAW: Final = "raw"
GZIP: Final = "gzip"
# In the order of preference, as virtctl has it: a disk packed, or all files of a claim.
_PACKED: Final = (GZIP, "tar.gz")
_PIECE: Final = 1 << 20
_CONNECT_SECONDS: Final = 20.0
_SILENT_SECONDS: Final = 120.0
_AGAIN_SECONDS: Final = 2.0
# A VM, its DataVolumes and a Secret.
LONGEST_MANIFEST: Final = 16 << 20

Show = Callable[[int, int], None]


class Way(Struct, frozen=True):
    """How the export's server is reached: by another host than the links name, and without a look at its certificate;
    `tries` is how often a download is begun.
    """

    host: str = ""
    insecure: bool = False
    tries: int = 1


def choose_link(links: JsonObject, way: Way) -> JsonObject:
    """The links that lead to the server: those from outside, unless a host is named that leads to the Service.

    Raises:
        NotFoundError: no way leads in from outside.
    """
    found = links.get("internal" if way.host else "external")
    if not found:
        raise NotFoundError(
            "the export has no link from outside: lead an Ingress to the Service that serves exports, or run `kubectl "
            "port-forward service/virt-export-NAME 8443:443` and name --service-url 127.0.0.1:8443 --insecure"
        )
    return dict(found)


def choose_url(link: JsonObject, volume: str, form: str) -> tuple[str, str]:
    """The format and the address of one volume.

    Raises:
        UsageError: it has to be said which volume, or there is none of that name or format.
    """
    volumes: Sequence[JsonObject] = link.get("volumes") or ()
    names = [str(each.get("name")) for each in volumes]
    if volume and volume not in names:
        raise UsageError(f"--volume {volume}: the export has {', '.join(names) or 'none'}")
    if not volume and len(volumes) != 1:
        raise UsageError(f"detected more than one downloadable volume: --volume names one of {', '.join(names)}")
    chosen = volumes[names.index(volume) if volume else 0]
    urls = {str(each.get("format")): str(each.get("url")) for each in chosen.get("formats") or ()}
    wanted = (RAW,) if form == RAW else _PACKED
    for each in wanted:
        if each in urls:
            return each, urls[each]
    raise UsageError(f"--format {form}: volume {chosen.get('name')} is served as {', '.join(sorted(urls))}")


class ExportDownload:
    """Downloads from one export."""

    def __init__(self, link: JsonObject, token: str, way: Way, pause: Callable[[float], None] = time.sleep) -> None:
        """`link` is a way in of its links."""
        self._ca = str(link.get("cert") or "")
        self._token = token
        self._way = way
        self._pause = pause

    def fetch_raw(self, url: str, file: BinaryIO, show: Show) -> int:
        """A raw disk, into a new file; how large it is.

        Raises:
            ClientError: it cannot be read.
            OSError: of the file.
        """
        disk = RemoteDisk(self._address(url), self._pause, insecure=self._way.insecure)
        try:
            size = disk.read_size()
            os.truncate(file.fileno(), size)
            for start, end in disk.find_ranges():
                for place, chunk in disk.read_chunks(start, end):
                    write_blocks(file.fileno(), place, chunk)
                    show(place + len(chunk), size)
        finally:
            disk.close()
        return size

    def fetch_stream(self, url: str, file: BinaryIO, show: Show, *, seekable: bool = True) -> int:
        """What is sent from its beginning to its end; how much that was. A stream that has begun cannot begin anew.

        Raises:
            ClientError: it cannot be read.
            OSError: of the file.
        """
        for tried in range(1, self._way.tries + 1):
            sent = _Sent()
            try:
                return self._pour(url, file, show, sent)
            except (_Broken, http.client.HTTPException, OSError) as error:
                if isinstance(error, OSError) and sent.is_writing:
                    raise
                self._refuse_distrust(url, error)
                if tried == self._way.tries or (sent.count and not seekable):
                    why = str(error) or type(error).__name__
                    raise ClientError(f"the download of {urlsplit(url).path} failed: {why}") from error
            if sent.count:
                file.seek(0)
                file.truncate()
            self._pause(_AGAIN_SECONDS)
        raise AssertionError

    def fetch_manifest(self, url: str, media_type: str) -> bytes:
        """A manifest, in this type.

        Raises:
            ClientError: it cannot be read.
        """
        try:
            connection, response = self._ask(url, {"Accept": media_type})
            try:
                content = response.read(LONGEST_MANIFEST + 1)
            finally:
                connection.close()
        except (_Broken, http.client.HTTPException, OSError) as error:
            self._refuse_distrust(url, error)
            raise ClientError(f"the manifest {urlsplit(url).path} cannot be read: {error}") from error
        if len(content) > LONGEST_MANIFEST:
            raise RefusedError(f"the manifest {urlsplit(url).path} has more than {LONGEST_MANIFEST} bytes")
        return content

    def _pour(self, url: str, file: BinaryIO, show: Show, sent: _Sent) -> int:
        connection, response = self._ask(url, {})
        try:
            total = int(response.headers.get("Content-Length") or 0)
            if not total and not response.chunked:
                # An end that nobody tells looks like a broken line.
                raise RefusedError(f"the export's server does not say where {urlsplit(url).path} ends")
            while piece := response.read(_PIECE):
                sent.is_writing = True
                file.write(piece)
                sent.is_writing = False
                sent.count += len(piece)
                show(sent.count, total)
            if total and sent.count != total:
                raise _Broken(f"the connection ended after {sent.count} of {total} bytes")
        finally:
            connection.close()
        return sent.count

    def _ask(self, url: str, headers: dict[str, str]) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        address = self._address(url)
        parts = urlsplit(address.url)
        connection = http.client.HTTPSConnection(
            str(parts.hostname),
            parts.port or 443,
            context=address.tls(insecure=self._way.insecure),
            timeout=_CONNECT_SECONDS,
        )
        try:
            connection.connect()
            connection.sock.settimeout(_SILENT_SECONDS)
            connection.request("GET", parts.path, headers={TOKEN_HEADER: self._token, **headers})
            response = connection.getresponse()
            if response.status != 200:
                raise _Broken(f"Bad status: {response.status} {response.reason}")
        except BaseException:
            connection.close()
            raise
        return connection, response

    def _address(self, url: str) -> ExportAddress:
        parts = urlsplit(url)
        if self._way.host:
            parts = parts._replace(netloc=self._way.host)
        if parts.scheme != "https" or not parts.hostname:
            raise UsageError(f"the export's link {url[:200]!r} is not https://HOST/…")
        return ExportAddress(urlunsplit(parts), self._ca, self._token)

    def _refuse_distrust(self, url: str, error: Exception) -> None:
        if isinstance(error, ssl.SSLCertVerificationError):
            raise RefusedError(
                f"the certificate of {self._way.host or urlsplit(url).netloc} is not to be trusted: "
                f"{error.verify_message}; --insecure takes it as it is"
            ) from error


class _Sent(Struct):
    """How far one try has come; an error of the file is none of the connection."""

    count: int = 0
    is_writing: bool = False


class _Broken(Exception):
    """This try failed."""
