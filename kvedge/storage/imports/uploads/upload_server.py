"""The server of an upload's worker: HTTPS on the Pod's address, for the upload proxy alone.

Started by the worker when its job is an upload. Every connection has a thread, of which there are a few at most; the
certificates are files, mounted from the Secret of this claim. What is wrong with the data is told with the status that
CDI's worker has: 400 for an image that does not fit or is no image, 409 after one was taken, 503 while one comes.

The roles' `HttpsServer` brings aiohttp and its event loop along, 12 MB where this process has 16 in all. A dozen
connections, of which one writes to a disk, are well served by threads.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

from kvedge.resources.disks.uploads import (
    ASYNC,
    LONGEST_UPLOAD_ID,
    SYNC,
    UPLOAD_CLIENT_NAME,
    UPLOAD_ID_HEADER,
    UPLOAD_OFFSET_HEADER,
    UPLOAD_VERSIONS,
)
from kvedge.resources.types.import_job import UPLOAD_CERTIFICATES_DIRECTORY, UPLOAD_PORT
from kvedge.runtime.tls.bare_contexts import new_server_context
from kvedge.storage.imports.uploads.upload_attempt import Attempt
from kvedge.storage.imports.uploads.upload_body import BodyBroken, BodyMalformed, body_pieces
from kvedge.storage.imports.uploads.upload_run import NotNow, UploadRun

log = logging.getLogger(__name__)

# The proxy ends a client that stalls for a minute; a proxy that is silent for longer has lost its power.
_SILENT_SECONDS: Final = 180.0
# How long its end takes at most; each look costs microseconds.
_POLL_SECONDS: Final = 0.05
_HANDSHAKE_SECONDS: Final = 10.0
# One brings data, others ask, and strangers on the Pod network try.
_MOST_CONNECTIONS: Final = 12
# The rest of a refused body is read for so long, so that the proxy gets to see the refusal.
_LINGER_BYTES: Final = 4 << 20
_LINGER_SECONDS: Final = 2.0
_CALLS: Final = {f"/{version}/{call}": call for version in UPLOAD_VERSIONS for call in (SYNC, ASYNC)}
# Says what an error of the sink is to the client.
RefusalOf = Callable[[Exception], NotNow]


def upload_tls(directory: Path = Path(UPLOAD_CERTIFICATES_DIRECTORY)) -> ssl.SSLContext:
    """The server's context: clients without a certificate of uploads' authority are turned away."""
    context = new_server_context()
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    context.load_verify_locations(directory / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class UploadServer:
    """Serves one run from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        run: UploadRun,
        tls: ssl.SSLContext,
        refusal_of: RefusalOf,
        host: str = "::",
        port: int = UPLOAD_PORT,
        client: str = UPLOAD_CLIENT_NAME,
    ) -> None:
        """Takes the port; 0 takes a free one. `::` stands for all addresses of both families.

        `client` is the name in the certificate of the only one that is served.
        """
        self._server = _Server(host, port, run, tls, refusal_of)
        self._server.client_name = client
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="upload-server", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.socket.getsockname()[1])

    def start(self) -> None:
        """Serve."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections, and let those that are answered get their answer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server.wait_for_answers(_LINGER_SECONDS * 2)


class _Server(HTTPServer):
    """The listening socket."""

    request_queue_size = 32
    client_name = UPLOAD_CLIENT_NAME

    def __init__(self, host: str, port: int, run: UploadRun, tls: ssl.SSLContext, refusal_of: RefusalOf) -> None:
        self.run = run
        self.tls = tls
        self.refusal_of = refusal_of
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._idle = threading.Condition()
        self._working = 0
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

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
        with self._idle:
            self._working += 1
        threading.Thread(target=self._work, args=(request, client_address), name="upload-call", daemon=True).start()

    def wait_for_answers(self, seconds: float) -> None:
        """Until no connection is worked on, but not longer."""
        with self._idle:
            self._idle.wait_for(lambda: not self._working, seconds)

    def _work(self, request: socket.socket, client_address: object) -> None:
        try:
            request.settimeout(_HANDSHAKE_SECONDS)
            request.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            with self.tls.wrap_socket(request, server_side=True) as secured:
                secured.settimeout(_SILENT_SECONDS)
                _Handler(secured, client_address, self)
        except OSError as error:
            # No TLS, a stranger's certificate, or a client that went.
            log.debug("a connection ended: %s", error)
        finally:
            self.shutdown_request(request)
            self._places.release()
            with self._idle:
                self._working -= 1
                self._idle.notify_all()


class _Handler(BaseHTTPRequestHandler):
    """One connection, which is good for one call."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "kvedge", ""

    def do_HEAD(self) -> None:
        """Whether the asynchronous call is there, and how much of which upload is."""
        if not self._is_the_client():
            return
        if _CALLS.get(self.path) != ASYNC:
            self._answer(404)
            return
        kept = self.server.run.find_kept()
        known = {UPLOAD_ID_HEADER: kept.identity, UPLOAD_OFFSET_HEADER: str(kept.received)} if kept.identity else {}
        self._answer(200, headers=known)

    def do_POST(self) -> None:
        """An upload."""
        if not self._is_the_client():
            return
        call = _CALLS.get(self.path)
        if call is None:
            self._refuse(NotNow(404, "uploads are taken at /v1beta1/upload and /v1beta1/upload-async"))
            return
        try:
            attempt = self.server.run.begin(*self._read_beginning())
        except NotNow as error:
            self._refuse(error)
            return
        self._bring(attempt, call)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself: a method that nobody knows is a call that there is not."""
        self._answer(404 if code == 501 else code, f"{message or 'refused'}\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Prints nothing: events that matter are logged where they happen."""

    def _is_the_client(self) -> bool:
        assert isinstance(self.connection, ssl.SSLSocket)
        pairs = [pair for part in (self.connection.getpeercert() or {}).get("subject", ()) for pair in part]
        if ("commonName", self.server.client_name) in pairs:
            return True
        self._refuse(NotNow(403, "this is for another client alone"))
        return False

    def _read_beginning(self) -> tuple[str, int]:
        identity, text = self.headers.get(UPLOAD_ID_HEADER, ""), self.headers.get(UPLOAD_OFFSET_HEADER, "0")
        if len(identity) > LONGEST_UPLOAD_ID or not identity.isprintable() or not identity.isascii():
            raise NotNow(400, f"{UPLOAD_ID_HEADER} must be {LONGEST_UPLOAD_ID} printable characters at most")
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise NotNow(400, f"{UPLOAD_OFFSET_HEADER} must be a number of bytes")
        return identity, int(text)

    def _bring(self, attempt: Attempt, call: str) -> None:
        try:
            for piece in body_pieces(self.rfile, dict(self.headers.items())):
                if not attempt.bring(piece):
                    break
            else:
                attempt.finish()
        except (BodyBroken, BodyMalformed, OSError) as error:
            log.warning("the upload broke off after %d bytes: %s", attempt.received, error)
            self.server.run.leave(attempt)
            if isinstance(error, BodyMalformed):
                self._refuse(NotNow(400, str(error)))
            return
        (attempt.taken if call == ASYNC else attempt.ended).wait()
        # A failure before all was taken, or, for a call that waits, at any time.
        if attempt.error is not None and (call == SYNC or not attempt.was_taken):
            self._refuse(self.server.refusal_of(attempt.error))
            return
        self._answer(200)

    def _refuse(self, refusal: NotNow) -> None:
        log.warning("refused with %d: %s", refusal.status, refusal.message)
        self._answer(refusal.status, f"{refusal.message}\n")
        self._linger()

    def _answer(self, status: int, text: str = "", headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.close_connection = True
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _linger(self) -> None:
        self.connection.settimeout(_LINGER_SECONDS)
        left = _LINGER_BYTES
        try:
            while left > 0 and (piece := self.rfile.read1(min(left, 1 << 16))):
                left -= len(piece)
        except OSError:
            return
