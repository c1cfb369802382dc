"""HTTP to one API server: pooled connections, deadlines, retries of what may be repeated, errors translated.

Called by :mod:`kvedge.kube.kube_client` only. Credentials that come from files are followed (see
:mod:`kvedge.kube.live_connection`): new connections use what the files hold now; a watch that is open goes on with
what it began with, until the server ends it after some minutes.

It stands on `urllib3` alone. The `kubernetes` package's typed models would cost 20 MB and a second decoding of every
object, while ours go from bytes straight into the types of `kvedge.resources`.
"""

from __future__ import annotations

import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from msgspec import Struct, field
from urllib3.exceptions import ClosedPoolError, HTTPError, NewConnectionError, ProtocolError, SSLError

from kvedge import __version__
from kvedge.kube.credentials.connection_settings import Connection
from kvedge.kube.errors import Invalid, KubeError, Unauthenticated, Unavailable, error_from_answer
from kvedge.kube.figures.rest_figures import NO_ANSWER, REST_FIGURES, describe
from kvedge.kube.live_connection import LiveConnection, Pooled

_CONNECT_SECONDS: Final = 5.0
# A server asks for patience with Retry-After; a loop has its own back-off for more than this.
_LONGEST_WAIT: Final = 5.0
# RFC 7234's Warning header: a number, the name of the server that warns, and the words in quotes.
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_QUOTED: Final = re.compile(r"\\(.)")
_REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})
# Statuses that say the server did not act on the call, so that even a create may be repeated.
_REFUSED_UNSEEN: Final = frozenset({429})
# A part of a path that leads out of where it stands, as it is or escaped: the library below, or a server, goes there.
_LEADS_AWAY: Final = re.compile(r"(?:/|%2f)(?:\.|%2e){1,2}(?=/|%2f|$)|[\\\x00-\x1f\x7f]", re.IGNORECASE)
_UNAUTHENTICATED: Final = 401
_WATCH: Final = "watch"
# How a connection ends whose client the server does not take; not every server says why before it hangs up.
_BROKEN: Final = (ClosedPoolError, ProtocolError, SSLError)
# How OpenSSL names a handshake that one of the two sides does not agree to; before its end nothing is acted on.
_NOT_OURS: Final = "CERTIFICATE_VERIFY_FAILED"
_ALERTS: Final = frozenset(
    {
        "ACCESS_DENIED",
        "BAD_CERTIFICATE",
        "CERTIFICATE_EXPIRED",
        "CERTIFICATE_REQUIRED",
        "CERTIFICATE_REVOKED",
        "CERTIFICATE_UNKNOWN",
        "DECRYPT_ERROR",
        "HANDSHAKE_FAILURE",
        "UNKNOWN_CA",
    }
)


class Patience(Struct, frozen=True):
    """How long one answer may take, in seconds, and how often a repeatable call is tried."""

    read_seconds: float = 30.0
    attempts: int = 3


class Call(Struct, frozen=True):
    """One HTTP request below the server's address."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    # The forms that the caller can read: JSON, a Table, or the plain text of a log.
    accept: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class RestEdge:
    """Requests to one API server; safe for any number of threads."""

    def __init__(
        self, connection: Connection, program: str = "kvedge", on_warning: Callable[[str], None] | None = None
    ) -> None:
        """`program` is what the server notes as the manager of the fields that are written; `on_warning` hears what
        the server warns of beside its answers.
        """
        self._agent = f"{program}/{__version__}"
        self._on_warning = on_warning
        self._live = LiveConnection(connection)

    @property
    def host(self) -> str:
        """The server's address, as in the kubeconfig."""
        return self._live.newest.host

    def call(self, call: Call, patience: Patience, permit: Callable[[], bool] | None = None) -> bytes:
        """The body of the answer; with a `permit`, nothing is written without its consent at that moment.

        Raises:
            KubeError: when the server refuses (400 and above) or cannot be asked.
        """
        attempt = 1
        while True:
            if permit is not None and call.method != "GET" and not permit():
                raise Unavailable(0, "NotPermitted", f"{call}: not sent, as this process does not lead (any more)")
            try:
                return self._send_once(call, patience)
            except Unavailable as error:
                if attempt >= patience.attempts or not _may_repeat(call.method, error):
                    raise
                time.sleep(_wait_before(attempt, error))
                attempt += 1

    def stream(self, call: Call, read_seconds: float) -> LineStream:
        """An answer that goes on until the server ends it; `read_seconds` may pass between two lines.

        Raises:
            KubeError: when the server refuses or cannot be asked.
        """
        response = self._send(call, Patience(read_seconds, 1))
        if response.status >= 400:
            raise self._refusal(response, call)
        return LineStream(response, call)

    def close(self) -> None:
        """Drop idle connections."""
        self._live.close()

    def _send_once(self, call: Call, patience: Patience) -> bytes:
        response = self._send(call, patience)
        if response.status >= 400:
            raise self._refusal(response, call)
        if self._on_warning is not None:
            for text in _WARNING.findall(", ".join(response.headers.getlist("Warning"))):
                self._on_warning(_QUOTED.sub(r"\1", text))
        try:
            return response.data
        except HTTPError as error:
            raise _unreachable_error(call, error) from error
        finally:
            response.release_conn()

    def _send(self, call: Call, patience: Patience) -> urllib3.BaseHTTPResponse:
        """The answer's head; where the server does not take our credentials and there are newer ones, with those."""
        used = self._live.current()
        try:
            response = self._ask(used, call, patience)
        except HTTPError as error:
            newer = self._live.newer_than(used) if isinstance(error, _BROKEN) else None
            if newer is None or not (call.method in _REPEATABLE or _is_unseen(error)):
                raise self._explain(used, call, error) from error
        else:
            newer = self._live.newer_than(used) if response.status == _UNAUTHENTICATED else None
            if newer is None:
                return response
            # With the connection, which goes on to stand for what it began with.
            response.close()
        try:
            return self._ask(newer, call, patience)
        except HTTPError as error:
            raise self._explain(newer, call, error) from error

    def _ask(self, pooled: Pooled, call: Call, patience: Patience) -> urllib3.BaseHTTPResponse:
        if _LEADS_AWAY.search(call.path.partition("?")[0]):
            raise Invalid(400, "BadRequest", f"{call.method} {call.path!r}: not sent, as no object has such a path")
        url = f"{pooled.host}{call.path}"
        if call.query:
            url = f"{url}?{urlencode(call.query)}"
        connect = min(_CONNECT_SECONDS, patience.read_seconds)
        what, begun = describe(call.method, call.path, watches=_WATCH in call.query), time.monotonic()
        code = NO_ANSWER
        try:
            response = pooled.sockets.request(
                call.method,
                url,
                body=call.body,
                headers=self._headers(pooled, call),
                timeout=urllib3.Timeout(connect=connect, read=patience.read_seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            code = str(response.status)
            return response
        finally:
            REST_FIGURES.note(call.method, pooled.host, what, code, time.monotonic() - begun)

    def _headers(self, pooled: Pooled, call: Call) -> dict[str, str]:
        headers = {"Accept": call.accept, "User-Agent": self._agent}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if authorization := pooled.connection.authorization():
            headers["Authorization"] = authorization
        return headers

    def _refusal(self, response: urllib3.BaseHTTPResponse, call: Call) -> KubeError:
        refusal = _refusal(response, call)
        if isinstance(refusal, Unauthenticated) and (why := self._live.find_complaint(self._live.newest)):
            return Unauthenticated(refusal.status, refusal.reason, f"{call}: {why}")
        return refusal

    def _explain(self, used: Pooled, call: Call, error: HTTPError) -> KubeError:
        if isinstance(error, _BROKEN) and (why := self._live.find_complaint(used)):
            return Unauthenticated(0, "Unauthorized", f"{call}: {why}")
        return _unreachable_error(call, error)


class LineStream:
    """The lines of one long answer; :meth:`close` may be called from any thread and ends the iteration at once."""

    def __init__(self, response: urllib3.BaseHTTPResponse, call: Call) -> None:
        self._response = response
        self._call = call
        self._closed = threading.Event()

    def lines(self) -> Iterator[bytes]:
        """Each line without its end.

        Raises:
            Unavailable: when the connection breaks; not after :meth:`close`.
        """
        rest = b""
        try:
            for chunk in self._chunks():
                *complete, rest = (rest + chunk).split(b"\n")
                for line in complete:
                    if self._closed.is_set():
                        return
                    if line.strip():
                        yield line
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            # A socket that another thread shut down fails in any of these ways.
            if not self._closed.is_set():
                raise _unreachable_error(self._call, error) from error
        finally:
            # Never back into the pool: the rest of the answer was not read.
            self._response.close()

    def close(self) -> None:
        """End the iteration; a read that waits in another thread returns."""
        self._closed.set()
        connection: Any = getattr(self._response, "connection", None)
        sock: socket.socket | None = getattr(connection, "sock", None)
        if sock is not None:
            # Closing alone would wait for the reader; shutting down wakes it.
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                # It is down already.
                return

    def _chunks(self) -> Iterator[bytes]:
        if getattr(self._response, "chunked", False):
            yield from self._response.read_chunked(decode_content=True)
            return
        while chunk := self._response.read1(65536):
            yield chunk


def _refusal(response: urllib3.BaseHTTPResponse, call: Call) -> KubeError:
    try:
        body = response.data
    except HTTPError as error:
        return _unreachable_error(call, error)
    finally:
        response.release_conn()
    refusal = error_from_answer(response.status, body, str(call))
    header = response.headers.get("Retry-After", "")
    if refusal.retry_after is None and header.isdigit():
        refusal.retry_after = float(header)
    return refusal


def _is_unseen(error: HTTPError) -> bool:
    """Whether the server cannot have acted on a call for which it, or we, did not take the connection."""
    if isinstance(error, ClosedPoolError):
        # Another thread has just exchanged them.
        return True
    cause = error.args[0] if isinstance(error, SSLError) and error.args else None
    reason = cause.reason if isinstance(cause, ssl.SSLError) else None
    return reason == _NOT_OURS or (reason or "").rpartition("ALERT_")[2] in _ALERTS


def _unreachable_error(call: Call, error: Exception) -> Unavailable:
    unavailable = Unavailable(0, "Unreachable", f"{call}: {_why_unreachable(error)}")
    # Nothing was sent when there was no connection, so that even a create may be repeated.
    unavailable.never_sent = isinstance(error, NewConnectionError)
    return unavailable


def _why_unreachable(error: Exception) -> str:
    """Which server, and the system's word for it; the library's own words show Python's objects."""
    cause = error.__cause__
    if isinstance(error, NewConnectionError) and isinstance(cause, OSError) and cause.strerror:
        return f"{error.conn.host}:{error.conn.port} cannot be reached: {cause.strerror}"
    return str(error)


def _may_repeat(method: str, error: Unavailable) -> bool:
    return method in _REPEATABLE or error.status in _REFUSED_UNSEEN or error.never_sent


def _wait_before(attempt: int, error: Unavailable) -> float:
    if error.retry_after is not None:
        return min(error.retry_after, _LONGEST_WAIT)
    return float(min(_LONGEST_WAIT, 0.1 * 2.0**attempt) * (0.5 + random.random() / 2))
