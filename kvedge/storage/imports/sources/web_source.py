"""HTTP(S) and S3 as a source: URL, login, headers, certificates and checksum of a job.

Called by the import's run. Reads the files of the mounted Secrets and ConfigMaps; opens connections through the door.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kvedge.resources.types.import_job import HttpSource, S3Source
from kvedge.storage.images.registry_door import Door
from kvedge.storage.images.registry_pace import Pace, PaceLimits
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sources.checksum import Checksum
from kvedge.storage.imports.sources.http_download import HttpDownload, HttpParts, HttpStream
from kvedge.storage.imports.sources.s3_signature import S3Keys, endpoint_of, signer

# A server that sends less than 1 KB/s for half a minute is as good as gone; an image of 100 GiB may take its day.
PACE: Final = PaceLimits(window=30.0, window_bytes=30 << 10, total=24 * 3600.0)
# Where Debian has the authorities that the Internet believes, and where its operators put their own.
_AUTHORITIES: Final = (Path("/usr/share/ca-certificates"), Path("/usr/local/share/ca-certificates"))
_LARGEST_FILE: Final = 1 << 20
_MOST_HEADERS: Final = 64


class WebStream:
    """What is sent, from its beginning: counted, and compared with its checksum."""

    def __init__(self, stream: HttpStream, checksum: str, progress: ImportProgress) -> None:
        self._stream = stream
        self._checksum = Checksum(checksum) if checksum else None
        self._progress = progress
        self._done = 0
        progress.expect(max(0, stream.total))
        progress.reach(0)

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        data = self._stream.read(size)
        if self._checksum is not None:
            self._checksum.update(data)
        self._done += len(data)
        self._progress.reach(self._done)
        return data

    def parts(self) -> HttpParts | None:
        """Any part of it; none where all bytes have to be seen in their order for a checksum."""
        return self._stream.parts() if self._checksum is None else None

    def verify(self) -> None:
        """It was read to its end.

        Raises:
            ChecksumWrong: when it is not what it should be.
        """
        if self._checksum is not None:
            self._checksum.check()

    def close(self) -> None:
        """End the connection."""
        self._stream.close()


def http_download(source: HttpSource, places: SourceFiles, door: Door) -> HttpDownload:
    """A job's URL.

    Raises:
        ImportFailure: when a header or a certificate cannot be used.
    """
    if source.checksum:
        # Before anything is sent.
        Checksum(source.checksum)
    headers = places.headers(source.extra_headers)
    user, password = places.login()
    if user and not any(key.lower() == "authorization" for key in headers):
        headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
    return HttpDownload(source.url, door, _pace(source.url), places.context(source.insecure_skip_verify), headers)


def s3_download(source: S3Source, places: SourceFiles, door: Door) -> HttpDownload:
    """A job's object."""
    endpoint = endpoint_of(source.url, gcs=source.gcs)
    access, secret = places.login()
    sign = signer(S3Keys(access, secret, endpoint.region)) if access else None
    return HttpDownload(endpoint.url, door, _pace(endpoint.url), places.context(insecure=False), {}, sign)


def _pace(url: str) -> Pace:
    host = urlsplit(url).hostname or url[:80]
    return Pace(host, PACE, peer=f"server {host}", remedy="check the network and the server")


class SourceFiles:
    """The mounted Secrets and ConfigMaps of a job; each of the directories may be missing."""

    def __init__(self, credentials: Path, certificates: Path, headers: Path) -> None:
        self._credentials = credentials
        self._certificates = certificates
        self._headers = headers

    def login(self) -> tuple[str, str]:
        """accessKeyId and secretKey, or empty."""
        return _text(self._credentials / "accessKeyId"), _text(self._credentials / "secretKey")

    def headers(self, given: list[str]) -> dict[str, str]:
        """`Name: value` of the job and of the files."""
        lines = [*given, *(_text(path) for path in _files(self._headers))]
        found: dict[str, str] = {}
        for line in lines[:_MOST_HEADERS]:
            name, colon, value = line.partition(":")
            if not colon or not name.strip().isprintable() or not value.strip().isprintable():
                raise ImportFailure("an extra header is no `Name: value` in one line")
            found[name.strip()] = value.strip()
        return found

    def context(self, insecure: bool) -> ssl.SSLContext:
        """With the certificates that are mounted, beside the host's."""
        files = _files(self._certificates)
        context = ssl.create_default_context()
        if not insecure and not context.cert_store_stats()["x509_ca"]:
            load_authorities(context, _AUTHORITIES)
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        for path in files:
            try:
                context.load_verify_locations(cadata=_pem(path))
            except (ssl.SSLError, ValueError) as error:
                raise ImportFailure(f"certificate {path.name} of certConfigMap is no PEM certificate") from error
        return context


def load_authorities(context: ssl.SSLContext, directories: Iterable[Path]) -> None:
    """Trust the authorities in files below these directories; other files are passed over.

    A worker's Pod has the host's /usr, and not the /etc with the authorities that the host believes.
    """
    for directory in directories:
        for path in directory.rglob("*.crt"):
            with suppress(ssl.SSLError, ValueError, OSError):
                context.load_verify_locations(cadata=_pem(path))


def _pem(path: Path) -> str:
    """A file of certificates without the letters that only comments in it can have: OpenSSL reads ASCII alone."""
    return _text(path).encode("ascii", "ignore").decode()


def _files(directory: Path) -> list[Path]:
    """Those of a mounted volume, and of volumes mounted below it; hidden ones are the mount's own."""
    if not directory.is_dir():
        return []
    found = [*directory.glob("[!.]*"), *directory.glob("[!.]*/[!.]*")]
    return sorted(path for path in found if path.is_file())


def _text(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            return opened.read(_LARGEST_FILE).decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
