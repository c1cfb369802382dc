"""Registries that answer a byte now and then, and one that gives a small image at once; on loopback."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.hostile_archives import header

_PAUSE = 0.05
_LAYER = header(b"f") + bytes(1024)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class PlayedRegistry:
    """What it was asked, and how many connections hang in it now; `slow_at` is a part of a path, or `header`."""

    slow_at: str = ""
    layer: bytes = _LAYER
    asked: list[str] = field(default_factory=list)
    hanging: int = 0
    port: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def reference(self) -> str:
        """Its only image."""
        return f"127.0.0.1:{self.port}/a/b:1"

    def bodies(self) -> dict[str, bytes]:
        """By the end of the path."""
        config = json.dumps({"os": "linux", "rootfs": {"diff_ids": [_digest(self.layer)]}}).encode()
        described = [{"digest": _digest(item), "size": len(item)} for item in (config, self.layer)]
        manifest = json.dumps({"schemaVersion": 2, "config": described[0], "layers": described[1:]}).encode()
        return {"1": manifest, _digest(config): config, _digest(self.layer): self.layer}

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """One request."""
        self.asked.append(handler.path)
        body = self.bodies().get(handler.path.rpartition("/")[2], b"x" * 100)
        if self.slow_at == "token" and not handler.path.startswith("/token"):
            handler.send_response(401)
            handler.send_header("WWW-Authenticate", f'Bearer realm="http://127.0.0.1:{self.port}/token"')
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        if self.slow_at == "redirect" and not handler.path.startswith("/away"):
            handler.send_response(307)
            handler.send_header("Location", "/away")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        if self.slow_at == "header":
            self._hang(handler, b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000)
            return
        handler.send_response(200)
        if not self.slow_at or not handler.path.startswith(self._slow_path()):
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
            return
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        self._hang(handler, body)

    def _slow_path(self) -> str:
        return {"token": "/token", "redirect": "/away"}.get(self.slow_at, f"/v2/a/b/{self.slow_at}")

    def _hang(self, handler: http.server.BaseHTTPRequestHandler, data: bytes) -> None:
        """A byte now and then, and never the last one, until the other side is gone."""
        with self._lock:
            self.hanging += 1
        try:
            for byte in data[:-1]:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                if self.stopped.wait(_PAUSE):
                    return
            handler.connection.settimeout(None)
            while not self.stopped.wait(_PAUSE):
                # Nothing more is asked on this connection: what comes is its end.
                handler.connection.setblocking(False)
                try:
                    if not handler.connection.recv(1):
                        return
                except BlockingIOError:
                    continue
        except OSError:
            return
        finally:
            with self._lock:
                self.hanging -= 1


@contextmanager
def played_registry(slow_at: str = "", layer: bytes = _LAYER) -> Iterator[PlayedRegistry]:
    """One of them, for a `with` block."""
    registry = PlayedRegistry(slow_at, layer)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.answer(self)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="played-registry")
    thread.start()
    try:
        yield registry
    finally:
        registry.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
