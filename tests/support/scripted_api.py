"""An API server that fails on purpose, for what no real one does when asked: it says what a test scripted, in order.

Only for failures: broken watches, versions that are too old, refusals with Retry-After, silence. Everything a server
does in good health is tested against the embedded API and a kube-apiserver.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml


@dataclass
class Request:
    """What the client sent."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Exchange:
    """One answer in the making; a script calls one of these, or several for a watch."""

    def __init__(self, handler: http.server.BaseHTTPRequestHandler, request: Request) -> None:
        self._handler = handler
        self.request = request

    def answer(self, status: int, document: Any, **headers: str) -> None:
        """A whole answer."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self._handler.send_response(status)
        self._handler.send_header("Content-Type", "application/json")
        self._handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self._handler.send_header(name.replace("_", "-"), value)
        self._handler.end_headers()
        self._handler.wfile.write(body)

    def begin(self) -> None:
        """The head of a watch."""
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "application/json")
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()

    def say(self, *pieces: bytes) -> None:
        """Pieces of a watch, each a chunk of its own; a line may be cut anywhere."""
        for piece in pieces:
            self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self._handler.wfile.flush()

    def finish(self) -> None:
        """The end of a watch, as at its time limit."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def hang_up(self) -> None:
        """Cut the connection in the middle."""
        self._handler.close_connection = True
        self._handler.wfile.flush()
        self._handler.connection.shutdown(2)


Script = Callable[[Exchange], None]


@dataclass
class ScriptedApi:
    """The server; `scripts` are used up in order, the last one stays."""

    scripts: list[Script]
    requests: list[Request] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def next_script(self) -> Script:
        return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]

    def write_kubeconfig(self, path: Path, **user: Any) -> Path:
        """A kubeconfig for this server."""
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "users": [{"name": "u", "user": user}],
                }
            )
        )
        return path


@contextmanager
def scripted_api(*scripts: Script) -> Iterator[ScriptedApi]:
    """Run a server that answers each request by the next script."""
    api = ScriptedApi(list(scripts))

    class Handler(http.server.BaseHTTPRequestHandler):
        # The kernel would hold a body back until the client has acknowledged the head: 0.04 s each time.
        disable_nagle_algorithm = True
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, parts.path, query, dict(self.headers.items()), body)
            api.requests.append(request)
            try:
                api.next_script()(Exchange(self, request))
            except OSError:
                # The client may have gone: that is part of many scripts.
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def status(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    """A metav1.Status."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or f"scripted {reason}",
        "details": details,
    }


def refusing(code: int, reason: str, message: str = "", **details: Any) -> Script:
    """A script that answers with an error."""
    return lambda exchange: exchange.answer(code, status(code, reason, message, **details))


def a_list(*names: str, version: str = "5", next_page: str = "") -> dict[str, Any]:
    """A list of ConfigMaps, each with its place in the list as its version."""
    items = [
        {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(index + 1)}}
        for index, name in enumerate(names)
    ]
    return {"metadata": {"resourceVersion": version, "continue": next_page}, "items": items}


def listing(*names: str, version: str = "5", next_page: str = "") -> Script:
    """A script that answers with a list."""
    return lambda exchange: exchange.answer(200, a_list(*names, version=version, next_page=next_page))


def change(type_: str, name: str, version: str, **more: Any) -> bytes:
    """A line of a watch."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": version}
    return json.dumps({"type": type_, "object": {"metadata": metadata, **more}}).encode() + b"\n"


def bookmark(version: str) -> bytes:
    """A bookmark line."""
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}).encode() + b"\n"
