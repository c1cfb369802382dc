"""A web server on loopback that gives one file, and misbehaves as a test wants it."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class PlayedServer:
    """What it has and how it behaves; `asked` has the path, the Range and all headers of each request.

    `breaks_after` ends the connection after so many bytes of a body, as often as `breaks` says; `after_break` is called
    with the server at each of them. `by_ranges` is what it has for those who ask for a range. `drips` sends a byte now
    and then. `redirect` is where `/away` leads.
    """

    body: bytes = b""
    by_ranges: bytes = b""
    ranges: bool = True
    length: bool = True
    etag: str = '"1"'
    status: int = 200
    redirect: str = ""
    breaks_after: int = 0
    breaks: int = 0
    drips: bool = False
    after_break: Callable[[PlayedServer], None] = lambda server: None
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    host: str = "127.0.0.1"
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        """Of its file."""
        return f"{self.scheme}://{self.host}:{self.port}/disk.img"


class _Handler(http.server.BaseHTTPRequestHandler):
    # The kernel would hold a body back until the client has acknowledged the head: 0.04 s each time.
    disable_nagle_algorithm = True
    played: PlayedServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.played
        wanted = self.headers.get("Range", "")
        server.asked.append((self.path, wanted, dict(self.headers)))
        if server.redirect and self.path.startswith("/away"):
            self._end(302, {"Location": server.redirect})
            return
        if server.status != 200:
            self._end(server.status, {})
            return
        start = 0
        same = self.headers.get("If-Range", server.etag) == server.etag
        partial = bool(wanted) and server.ranges and same
        if partial:
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
        self._send(server, start, partial=partial)

    def _send(self, server: PlayedServer, start: int, *, partial: bool) -> None:
        body = server.by_ranges if partial and server.by_ranges else server.body
        size = len(body)
        self.send_response(206 if partial else 200)
        if server.etag:
            self.send_header("ETag", server.etag)
        if server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        if partial:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if server.length:
            self.send_header("Content-Length", str(size - start))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        data = body[start:]
        if server.breaks and len(data) > server.breaks_after:
            server.breaks -= 1
            self.wfile.write(data[: server.breaks_after])
            server.after_break(server)
            self.close_connection = True
            return
        if server.drips:
            self._drip(data)
            return
        self.wfile.write(data)
        if not server.length:
            self.close_connection = True

    def _drip(self, data: bytes) -> None:
        """A byte now and then, until the client has had enough."""
        self.close_connection = True
        pause = threading.Event()
        with contextlib.suppress(OSError):
            for byte in data[:1000]:
                self.wfile.write(bytes([byte]))
                pause.wait(0.02)

    def _end(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silent."""


class _Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


@contextmanager
def played_server(
    body: bytes = b"", context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[PlayedServer]:
    """A server that has `body`, with TLS by `context`; Pods reach it at an address of their network."""
    played = PlayedServer(body, host=host)
    handler = type("Handler", (_Handler,), {"played": played})
    server = _Quiet((host, 0), handler)
    played.port = server.server_address[1]
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        played.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="played server", daemon=True)
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
