"""The exporter's server: HTTPS on the Pod's address, for clients that have the token.

Started by export_worker.py. Every connection has a thread, of which there are a bounded number; a client that is slow
holds nothing but its own. A connection is good for one call, and its head must be there within seconds, so that
strangers on the Pod network cannot hold places.

The roles' `HttpsServer` brings aiohttp and its event loop along, 12 MB, and reads disks in the loop of all others.
"""

from __future__ import annotations

import io
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

from kvedge.resources.disks.exports import EXPORT_PORT
from kvedge.resources.types.protection.export_job import OWN_DIRECTORY
from kvedge.runtime.tls.bare_contexts import new_server_context
from kvedge.storage.exports.export_answers import ExportAnswers
from kvedge.storage.exports.export_calls import Denied
from kvedge.storage.exports.exported_files import ArchiveFailed

log = logging.getLogger(__name__)

_MOST_CONNECTIONS: Final = 48
# How long its end takes at most; each look costs microseconds.
_POLL_SECONDS: Final = 0.05
_HANDSHAKE_SECONDS: Final = 10.0
_HEAD_SECONDS: Final = 10.0
_LONGEST_HEAD: Final = 64 << 10
# For each record of 16 KiB. A proxy hands on a client's slowness.
_SILENT_SECONDS: Final = 300.0


def export_tls(directory: Path = Path(OWN_DIRECTORY)) -> ssl.SSLContext:
    """The server's context. Clients have a token, and no certificate."""
    context = new_server_context()
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


class ExportServer:
    """Serves from :meth:`start` to :meth:`stop`."""

    def __init__(self, answers: ExportAnswers, tls: ssl.SSLContext, host: str = "::", port: int = EXPORT_PORT) -> None:
        """Takes the port; 0 takes a free one. `::` stands for all addresses of both families."""
        self._server = _Server(host, port, answers, tls)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="export-server", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.socket.getsockname()[1])

    def start(self) -> None:
        """Serve."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections. Downloads that go on break off with the process."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(HTTPServer):
    """The listening socket."""

    request_queue_size = 64

    def __init__(self, host: str, port: int, answers: ExportAnswers, tls: ssl.SSLContext) -> None:
        self.answers = answers
        self.tls = tls
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), BaseHTTPRequestHandler)

    def server_bind(self) -> None:
        """Both families on one socket."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not HTTPServer's own, which asks for the host's name.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "kvedge", self.server_address[1]

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """A thread for each connection, while there are places."""
        assert isinstance(request, socket.socket)
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        threading.Thread(target=self._work, args=(request, client_address), name="export-call", daemon=True).start()

    def _work(self, request: socket.socket, client_address: object) -> None:
        try:
            request.settimeout(_HANDSHAKE_SECONDS)
            request.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            with self.tls.wrap_socket(request, server_side=True) as secured:
                head = read_head(secured)
                secured.settimeout(_SILENT_SECONDS)
                handler = _Handler(secured, client_address, self, head)
                if handler.is_whole:
                    # By TLS's goodbye the client knows that nothing was cut off.
                    secured.unwrap()
        except (OSError, EOFError, ArchiveFailed) as error:
            # No TLS, a client that went, or a disk that cannot be read: what was sent is not whole, and looks so.
            log.info("a connection ended: %s", error)
        finally:
            self.shutdown_request(request)
            self._places.release()


def read_head(connection: socket.socket, clock: Callable[[], float] = time.monotonic) -> bytes:
    """The head of a request, up to and with the empty line.

    Raises:
        OSError: when it does not come in time, or is too long.
    """
    deadline = clock() + _HEAD_SECONDS
    head = bytearray()
    while b"\r\n\r\n" not in head[-4096:]:
        left = deadline - clock()
        if left <= 0 or len(head) > _LONGEST_HEAD:
            raise TimeoutError("the head of the request is too long, or took too long")
        connection.settimeout(left)
        piece = connection.recv(4096)
        if not piece:
            raise ConnectionResetError("the client left")
        head += piece
    return bytes(head)


class _Handler(BaseHTTPRequestHandler):
    """One call."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "kvedge", ""

    def __init__(self, connection: ssl.SSLSocket, client_address: object, server: _Server, head: bytes) -> None:
        self._head = head
        self._is_chunked = False
        self._has_begun = False
        self.is_whole = False
        super().__init__(connection, client_address, server)

    def setup(self) -> None:
        """The head has been read; nobody sends a body."""
        self.connection = self.request
        self.rfile = io.BufferedReader(io.BytesIO(self._head))
        self.wfile = _Writer(self.connection)  # type: ignore[assignment]

    def finish(self) -> None:
        """All was written at once."""

    def handle(self) -> None:
        """One call and no more."""
        self.close_connection = True
        self.handle_one_request()

    def do_GET(self) -> None:
        """Everything that is served."""
        try:
            self.server.answers.answer(self, self.path, self.headers)
        except Denied as error:
            self._deny(error)
        self.is_whole = True

    def do_HEAD(self) -> None:
        """The same without bodies."""
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself; an exporter of KubeVirt says 400 to any other method."""
        self._deny(Denied(400 if code == HTTPStatus.NOT_IMPLEMENTED else code, "this is served by GET and HEAD"))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Prints nothing: a request line may hold the token."""

    def begin(self, status: int, headers: dict[str, str], length: int | None) -> bool:
        """Send the beginning of an answer."""
        self._has_begun = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        elif self.request_version == "HTTP/1.1":
            self._is_chunked = True
            self.send_header("Transfer-Encoding", "chunked")
        # The file of a stranger is no page of ours.
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", "default-src 'none'; sandbox")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        return self.command != "HEAD"

    def send(self, piece: bytes) -> None:
        """Send a piece of the body."""
        if not self._is_chunked:
            self.connection.sendall(piece)
        elif piece:
            self.connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))

    def finish_body(self) -> None:
        """Say that the body is whole."""
        if self._is_chunked:
            self.connection.sendall(b"0\r\n\r\n")

    def _deny(self, denied: Denied) -> None:
        if self._has_begun:
            raise ConnectionAbortedError(denied.text)
        text = f"{denied.text}\n".encode()
        if self.begin(denied.status, {"Content-Type": "text/plain; charset=utf-8", **denied.headers}, len(text)):
            self.send(text)


class _Writer(io.RawIOBase):
    """Writes all of what it is given."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        """It is for writing."""
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        """Send all of it."""
        self._connection.sendall(data)
        return len(data)
