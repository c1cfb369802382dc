"""An export's server as the protocol has it: files of the test over HTTPS, with ranges and maps of what is no hole.

For tests of the client that reads it. It may have no maps, as KubeVirt's has none, and it may break connections.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kvedge.storage.sparse_file import find_data_extents
from tests.support.certificate_files import FileAuthority

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class PlayedExports:
    """What is served, and how badly."""

    def __init__(self, token: str = "secret") -> None:
        self.token = token
        # By the path of the URL.
        self.files: dict[str, Path] = {}
        self.has_maps = True
        self.extents_a_page = 2
        # A connection breaks after so many bytes of a body, so many times.
        self.breaks_after = 0
        self.breaks = 0
        # Replace what a call would be answered: a status, or a page of a map.
        self.statuses: list[int] = []
        self.pages: list[Any] = []
        self.state = "once"
        self.port = 0
        self.ca = ""
        # Method, path with its query, and range of each call.
        self.calls: list[tuple[str, str, str]] = []
        self.sent = 0

    def url(self, path: str) -> str:
        """Where a file is."""
        return f"https://127.0.0.1:{self.port}{path}"


class _Handler(BaseHTTPRequestHandler):
    # The kernel would hold a body back until the client has acknowledged the head: 0.04 s each time.
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"
    exports: PlayedExports

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _serve(self) -> None:
        exports, parts = self.exports, urlsplit(self.path)
        exports.calls.append((self.command, self.path, self.headers.get("Range", "")))
        if self.headers.get("x-kubevirt-export-token") != exports.token:
            self._answer(401)
        elif exports.statuses:
            self._answer(exports.statuses.pop(0))
        elif parts.path in exports.files:
            self._serve_file(exports.files[parts.path])
        elif exports.has_maps and parts.path.removesuffix(".map") in exports.files:
            self._serve_map(exports.files[parts.path.removesuffix(".map")], int(parse_qs(parts.query)["offset"][0]))
        else:
            self._answer(404)

    def _serve_file(self, path: Path) -> None:
        size = path.stat().st_size
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        start, end = (int(found[1]), int(found[2]) + 1) if found else (0, size)
        headers = {"ETag": f'"{self.exports.state}"', "Content-Length": str(end - start)}
        if found:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self.send_response(206 if found else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._send(path, start, end)

    def _send(self, path: Path, start: int, end: int) -> None:
        with path.open("rb") as file:
            file.seek(start)
            left = end - start
            while left:
                data = file.read(min(1 << 16, left))
                left -= len(data)
                self.exports.sent += len(data)
                if self.exports.breaks and self.exports.sent >= self.exports.breaks_after:
                    self.exports.breaks -= 1
                    self.exports.sent = 0
                    self.close_connection = True
                    self.connection.shutdown(2)
                    return
                self.wfile.write(data)

    def _serve_map(self, path: Path, offset: int) -> None:
        if self.exports.pages:
            self._answer(200, json.dumps(self.exports.pages.pop(0)).encode())
            return
        with path.open("rb") as file:
            size = path.stat().st_size
            found = [extent for extent in find_data_extents(file.fileno(), size) if extent[0] >= offset]
        page, rest = found[: self.exports.extents_a_page], found[self.exports.extents_a_page :]
        extents = [{"offset": start, "length": end - start} for start, end in page]
        body = {"size": size, "extents": extents, "next_offset": rest[0][0] if rest else None}
        self._answer(200, json.dumps(body).encode())

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def played_exports(directory: Path) -> Iterator[PlayedExports]:
    """Serves on loopback while it is entered."""
    exports = PlayedExports()
    authority = FileAuthority(directory, "exports-ca")
    pair = authority.issue("exports", hosts=["127.0.0.1"])
    exports.ca = authority.ca.read_text()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    handler = type("Handler", (_Handler,), {"exports": exports})
    server = _Quiet(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    exports.port = server.socket.getsockname()[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="played-exports", daemon=True)
    thread.start()
    try:
        yield exports
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(ThreadingHTTPServer):
    """A client that hangs up is no error here."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass
