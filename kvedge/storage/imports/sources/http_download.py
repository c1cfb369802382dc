"""One object of an HTTP server: from its beginning to its end, over broken connections, or any part of it.

Called by the sources. The answer is a stranger's: it must come at a pace, redirects lead only where the door
lets them, and a file that changes meanwhile is noticed. Opens connections through the door.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from kvedge.storage.images.registry_door import Door, handlers
from kvedge.storage.images.registry_pace import Pace
from kvedge.storage.imports.import_errors import ImportFailure

_TIMEOUT: Final = 30.0
# Between two of them something must have come.
_ATTEMPTS: Final = 5
_PART: Final = 1 << 20
# Tables of a VMDK or VHD are read again and again.
_MOST_PARTS: Final = 8
_MOST_REDIRECTS: Final = 5
_SKIP: Final = 1 << 20

Sign = Callable[[str], Mapping[str, str]]


class SourceChanged(Exception):
    """The server has another content than before: the import begins anew."""


class _Seen(Struct, frozen=True):
    """What an answer says of the file: `total` is -1 when it does not say, `mark` what If-Range takes, or empty."""

    total: int
    mark: str
    ranges: bool


@dataclass(slots=True)
class HttpDownload:
    """A URL, and how it is asked for; `sign` gives further headers for each request to a URL."""

    url: str
    door: Door
    pace: Pace
    context: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    sign: Sign | None = None
    sleep: Callable[[float], None] = time.sleep

    def open(self) -> HttpStream:
        """From the beginning.

        Raises:
            ImportFailure: with CDI's words, when the server does not give it.
        """
        return HttpStream(self)

    def request(self, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """One GET.

        Raises:
            ImportFailure: for an answer that is neither 200 nor 206.
            OSError, http.client.HTTPException: when there is none.
        """
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname:
            raise ImportFailure(f"Unable to connect to http data source: {self.url[:200]!r} is no http or https URL")
        request = urllib.request.Request(self.url, headers={"User-Agent": "kvedge", "Accept-Encoding": "identity"})
        signed = self.sign(self.url) if self.sign else {}
        for key, value in {**self.headers, **signed, **headers}.items():
            # A redirect leads elsewhere: only to the same server these go along.
            request.add_unredirected_header(key, value)
        opener = urllib.request.build_opener(_Redirects(), *handlers(self.door, self.pace, self.context))
        try:
            answer = opener.open(request, timeout=_TIMEOUT)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, OSError):
                raise error.reason from error
            raise ImportFailure(f"Unable to connect to http data source: {error.reason}") from error
        except ValueError as error:
            raise ImportFailure(f"Unable to connect to http data source: {str(error)[:200]}") from error
        assert isinstance(answer, http.client.HTTPResponse)
        if answer.status not in (http.client.OK, http.client.PARTIAL_CONTENT):
            answer.close()
            raise _refusal(answer.status)
        return answer


class HttpStream:
    """The object from its beginning; a connection that breaks is followed by another one that goes on there."""

    def __init__(self, download: HttpDownload) -> None:
        self._download = download
        self._position = 0
        # Whether there is no connection that stands at the position: an end is no end of the object then.
        self._is_broken = False
        try:
            self._answer = download.request({})
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(error) from error
        self._seen = _look_at(self._answer)
        self.total = self._seen.total

    def parts(self) -> HttpParts | None:
        """Any part of it, where the server has ranges and says what it has."""
        return HttpParts(self._download, self._seen) if self._seen.ranges and self._seen.mark else None

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end.

        Raises:
            SourceChanged: when it cannot go on after a broken connection.
            ImportFailure: when the server is not there any more.
        """
        for attempt in range(_ATTEMPTS):
            try:
                data = self._answer.read(size)
                if self._is_broken or (not data and self._position < self.total):
                    raise ConnectionError("the connection ended early")
            except (OSError, http.client.HTTPException) as error:
                if attempt == _ATTEMPTS - 1:
                    raise unreachable(error) from error
                self._download.sleep(2.0**attempt / 4)
                self._reconnect()
                continue
            self._position += len(data)
            return data
        raise AssertionError

    def close(self) -> None:
        """End the connection."""
        self._answer.close()

    def _reconnect(self) -> None:
        """A connection that goes on at the position; without one the next read fails, and tries it again."""
        self._is_broken = True
        self._answer.close()
        if not self._seen.mark:
            raise SourceChanged("the server does not say whether the file is the same")
        try:
            self._answer = self._download.request(
                {"Range": f"bytes={self._position}-", "If-Range": self._seen.mark} if self._position else {}
            )
        except (OSError, http.client.HTTPException):
            return
        seen = _look_at(self._answer)
        if seen.mark != self._seen.mark or seen.total != self._seen.total:
            raise SourceChanged("the file has changed")
        if self._answer.status == http.client.PARTIAL_CONTENT:
            if _begin_of(self._answer) != self._position:
                raise SourceChanged("the server sends another part")
            self._is_broken = False
            return
        # It has no ranges: the same file once more.
        left = self._position
        try:
            while left and (data := self._answer.read(min(_SKIP, left))):
                left -= len(data)
        except (OSError, http.client.HTTPException):
            self._answer.close()
            return
        self._is_broken = left > 0


class HttpParts:
    """Parts of an object by ranges; parts that follow each other come by one request."""

    def __init__(self, download: HttpDownload, seen: _Seen) -> None:
        self._download = download
        self._seen = seen
        self.size = seen.total
        self._answer: http.client.HTTPResponse | None = None
        self._position = 0
        self._parts: OrderedDict[int, bytes] = OrderedDict()

    def read_at(self, position: int, size: int) -> bytes:
        """`size` bytes from there; fewer only at the end."""
        found = []
        end = min(position + size, self.size)
        while position < end:
            number, begin = divmod(position, _PART)
            data = self._read_part(number)[begin : begin + end - position]
            found.append(data)
            position += len(data)
        return b"".join(found)

    def _read_part(self, number: int) -> bytes:
        if number in self._parts:
            self._parts.move_to_end(number)
            return self._parts[number]
        for attempt in range(_ATTEMPTS):
            try:
                data = self._fetch(number * _PART)
            except (OSError, http.client.HTTPException) as error:
                self._close()
                if attempt == _ATTEMPTS - 1:
                    raise unreachable(error) from error
                self._download.sleep(2.0**attempt / 4)
                continue
            self._parts[number] = data
            if len(self._parts) > _MOST_PARTS:
                self._parts.popitem(last=False)
            return data
        raise AssertionError

    def _fetch(self, position: int) -> bytes:
        if self._answer is None or position != self._position:
            self._close()
            answer = self._download.request({"Range": f"bytes={position}-", "If-Range": self._seen.mark})
            if answer.status != http.client.PARTIAL_CONTENT or _begin_of(answer) != position:
                answer.close()
                raise SourceChanged("the file has changed")
            self._answer, self._position = answer, position
        wanted = min(_PART, self.size - position)
        found = b""
        while len(found) < wanted:
            data = self._answer.read(wanted - len(found))
            if not data:
                raise ConnectionError("the connection ended early")
            found += data
        self._position += wanted
        return found

    def _close(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows some redirects: to http and https only, and never from https to http."""

    max_redirections = _MOST_REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """urllib's hook."""
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("http", "https") or (old.scheme == "https" and new.scheme != "https"):
            raise ImportFailure(
                f"Unable to connect to http data source: the server redirects from {old.scheme} to {newurl[:80]!r}"
            )
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is None:
            return None
        same = (old.scheme, old.netloc) == (new.scheme, new.netloc)
        for key, value in req.unredirected_hdrs.items():
            if same or key in ("Range", "If-range"):
                following.add_unredirected_header(key, value)
        return following


def _look_at(answer: http.client.HTTPResponse) -> _Seen:
    length = answer.headers.get("Content-Length", "")
    total = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else -1
    if answer.status == http.client.PARTIAL_CONTENT:
        whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
        total = int(whole) if whole.isascii() and whole.isdigit() and len(whole) < 19 else -1
    tag = answer.headers.get("ETag", "")
    mark = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified", "")
    ranges = "bytes" in answer.headers.get("Accept-Ranges", "") and total > 0
    return _Seen(total, mark if mark.isprintable() else "", ranges)


def content_mark(download: HttpDownload) -> str:
    """What changes when the server has other content at this URL: its tag, or its date and length.

    Raises:
        ImportFailure: the server tells nothing of the kind.
        OSError, http.client.HTTPException: when there is no answer.
    """
    with download.request({"Range": "bytes=0-0"}) as answer:
        tag, date, total = (
            answer.headers.get("ETag", ""),
            answer.headers.get("Last-Modified", ""),
            _look_at(answer).total,
        )
    if not tag and not date:
        raise ImportFailure(
            "the server says neither ETag nor Last-Modified, so that nobody can see whether its image is new: serve it"
            " by a server that does, or from a registry"
        )
    return f"{tag} {total}" if tag else f"{date} {total}"


def _begin_of(answer: http.client.HTTPResponse) -> int:
    text = answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1


def _refusal(code: int) -> ImportFailure:
    name = http.client.responses.get(code, "")
    return ImportFailure(
        f"Unable to connect to http data source: expected status code 200, got {code}. Status: {code} {name}".rstrip()
    )


def unreachable(error: Exception) -> ImportFailure:
    """The failure for a connection that is not there, or not any more."""
    words = str(error)[:200] or type(error).__name__
    return ImportFailure(f"Unable to connect to http data source: {words}")
