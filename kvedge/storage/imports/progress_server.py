"""Answers `GET /progress` of a worker with `{"progress": "12.34%"}`, by plain HTTP, and `GET /result/TOKEN` with
what it has to hand out, if anything.

Any client that reaches the Pod's address may ask: one at a time, each for two seconds and two KiB at most. Opens a
socket and a thread.
"""

from __future__ import annotations

import hmac
import json
import socket
import time
from contextlib import suppress
from typing import Final

from kvedge.runtime.background import BackgroundThread
from kvedge.storage.imports.import_progress import ImportProgress

_PATIENCE: Final = 2.0
_LONGEST: Final = 2048
_BACKLOG: Final = 16


class ProgressServer:
    """Serves from its start until its stop."""

    def __init__(self, progress: ImportProgress, port: int, host: str = "") -> None:
        self._progress = progress
        # A document for the controller, which alone knows the token.
        self._result = b""
        self._token = b""
        # Dual stack where the host has IPv6: a Pod's address may be of either kind.
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() and not host else socket.AF_INET
        self._socket = socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=family == socket.AF_INET6
        )
        self.port: int = self._socket.getsockname()[1]
        self._thread = BackgroundThread("progress", self._serve)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def hand_out(self, result: bytes, token: str) -> None:
        """Have this fetched by whoever knows the token."""
        self._token = token.encode()
        self._result = result

    def stop(self) -> None:
        """Answer no more."""
        with suppress(OSError):
            # Wakes the thread that waits for a caller.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                # Closed by stop().
                return
            with caller, suppress(OSError):
                self._answer(caller)

    def _answer(self, caller: socket.socket) -> None:
        end = time.monotonic() + _PATIENCE
        asked = b""
        while b"\r\n\r\n" not in asked and len(asked) < _LONGEST:
            left = end - time.monotonic()
            if left <= 0:
                return
            caller.settimeout(left)
            part = caller.recv(_LONGEST)
            if not part:
                return
            asked += part
        caller.settimeout(_PATIENCE)
        caller.sendall(self._reply(asked))

    def _reply(self, asked: bytes) -> bytes:
        line = asked.split(b"\r\n", 1)[0].split(b" ")
        path = line[1].split(b"?")[0] if len(line) == 3 and line[0] == b"GET" else b""
        body = b"{}"
        known = path == b"/progress"
        if known:
            body = json.dumps({"progress": self._progress.text()}).encode()
        elif self._result and hmac.compare_digest(path, b"/result/" + self._token):
            known, body = True, self._result
        status = "200 OK" if known else "404 Not Found"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
        )
        return f"{head}\r\n\r\n".encode() + body
