"""The server through which the processes of one Ginkgo suite share out their specs and tell how each went.

Started by the conformance run, one for each suite. Ginkgo's own command-line tool plays it otherwise; this one keeps
every report that arrives, so that the table is complete also when a process dies. Listens on loopback only.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

# Ginkgo asks again a moment later, or learns that a process ended before it answered.
_EARLY: Final = HTTPStatus.TOO_EARLY
_GONE: Final = HTTPStatus.GONE
# A report holds a spec's whole output.
_MOST_BYTES: Final = 256 << 20

Answer = tuple[HTTPStatus, bytes]


class SpecServer:
    """What the processes of one suite ask of each other; use as a context."""

    def __init__(self, told: Callable[[dict[str, Any]], None]) -> None:
        self._told = told
        self._alive: Sequence[Callable[[], bool]] = ()
        self._lock = threading.Lock()
        self._next_spec = 0
        # What process 1 posted for the others, by what they ask for.
        self._states: dict[str, bytes] = {}
        self._ended: list[dict[str, Any]] = []
        self._aborted = False
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="spec-server", daemon=True
        )

    def __enter__(self) -> SpecServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        """The value of -ginkgo.parallel.host."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def watch(self, alive: Sequence[Callable[[], bool]]) -> None:
        """Learn how to see whether a process still runs, in the order of their numbers."""
        self._alive = alive

    def post(self, path: str, body: bytes) -> Answer:
        """Take what a process tells."""
        with self._lock:
            match path:
                case "/did-run":
                    self._told(json.loads(body))
                case "/suite-did-end":
                    self._ended.append(json.loads(body))
                case "/report-before-suite-completed":
                    self._states["/report-before-suite-state"] = body
                case "/before-suite-completed":
                    self._states["/before-suite-state"] = body
                case "/abort":
                    self._aborted = True
                case _:
                    # The suite's beginning, progress reports and output say nothing that did-run does not.
                    pass
        return HTTPStatus.OK, b""

    def get(self, path: str) -> Answer:
        """Answer what a process asks."""
        with self._lock:
            match path:
                case "/up":
                    return HTTPStatus.OK, b""
                case "/counter":
                    number = self._next_spec
                    self._next_spec += 1
                    return HTTPStatus.OK, json.dumps({"Index": number}).encode()
                case "/report-before-suite-state" | "/before-suite-state":
                    return self._state(path)
                case "/have-nonprimary-procs-finished":
                    return (_EARLY if self._others_run() else HTTPStatus.OK), b""
                case "/aggregated-nonprimary-procs-report":
                    return self._others_report()
                case "/abort":
                    return (_GONE if self._aborted else HTTPStatus.OK), b""
        return HTTPStatus.NOT_FOUND, b""

    def _state(self, path: str) -> Answer:
        if path in self._states:
            return HTTPStatus.OK, self._states[path]
        first_runs = not self._alive or self._alive[0]()
        return (_EARLY if first_runs else _GONE), b""

    def _others_run(self) -> bool:
        return any(alive() for alive in self._alive[1:])

    def _others_report(self) -> Answer:
        if self._others_run():
            return _EARLY, b""
        if len(self._ended) != len(self._alive) - 1 or not self._ended:
            return _GONE, b""
        merged = dict(self._ended[0])
        merged["SpecReports"] = [spec for report in self._ended for spec in report.get("SpecReports") or []]
        merged["SuiteSucceeded"] = all(report["SuiteSucceeded"] for report in self._ended)
        return HTTPStatus.OK, json.dumps(merged).encode()


def _handler_of(server: SpecServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(*server.get(self.path))

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if size > _MOST_BYTES:
                self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"")
                return
            self._send(*server.post(self.path, self._body(size)))

        def _body(self, size: int) -> bytes:
            return self.rfile.read(size)

        def _send(self, status: HTTPStatus, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing: each process polls twenty times a second."""

    return Handler
