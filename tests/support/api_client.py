"""A plain HTTPS client for API servers under test: no Kubernetes library between a test and what the server says."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import urllib3

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))

    @property
    def causes(self) -> list[dict[str, str]]:
        causes: list[dict[str, str]] = (self.json.get("details") or {}).get("causes") or []
        return causes


@dataclass
class ApiClient:
    """One user's access to one server."""

    url: str
    context: ssl.SSLContext
    pool: urllib3.PoolManager = field(init=False)

    def __post_init__(self) -> None:
        self.pool = urllib3.PoolManager(ssl_context=self.context, maxsize=8, retries=False, timeout=30.0)

    def close(self) -> None:
        """Close all connections."""
        self.pool.clear()

    def ask(
        self, method: str, path: str, body: Any = None, content_type: str = JSON, accept: str = JSON, **query: str
    ) -> Answer:
        """One request; `body` is a document, a text or bytes."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "User-Agent": "contract/1.0"}
        if data is not None:
            headers["Content-Type"] = content_type
        url = f"{self.url}{path}{'?' + urlencode(query) if query else ''}"
        response = self.pool.request(method, url, body=data, headers=headers)
        return Answer(response.status, response.headers, response.data)

    def get(self, path: str, accept: str = JSON, **query: str) -> Answer:
        return self.ask("GET", path, accept=accept, **query)

    def post(self, path: str, body: Any, **query: str) -> Answer:
        return self.ask("POST", path, body, **query)

    def put(self, path: str, body: Any, **query: str) -> Answer:
        return self.ask("PUT", path, body, **query)

    def patch(self, path: str, body: Any, content_type: str = MERGE, **query: str) -> Answer:
        return self.ask("PATCH", path, body, content_type, **query)

    def delete(self, path: str, body: Any = None, **query: str) -> Answer:
        return self.ask("DELETE", path, body, **query)

    def made(self, path: str, body: Any) -> dict[str, Any]:
        """The object that a create made; the test fails when it was refused."""
        answer = self.post(path, body)
        assert answer.status == 201, answer.body
        created: dict[str, Any] = answer.json
        return created

    def watch(self, path: str, accept: str = JSON, **query: str) -> Watch:
        """Begin to watch a collection."""
        url = f"{self.url}{path}?{urlencode({'watch': 'true', **query})}"
        timeout = urllib3.Timeout(connect=30.0, read=290.0)
        response = self.pool.request("GET", url, headers={"Accept": accept}, preload_content=False, timeout=timeout)
        assert isinstance(response, urllib3.HTTPResponse)
        return Watch(response)


class Watch:
    """The events of a watch, read by a thread as they come."""

    def __init__(self, response: urllib3.HTTPResponse) -> None:
        self.status = response.status
        self.events: list[dict[str, Any]] = []
        self.ended = False
        self._response = response
        self._grown = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="watch", daemon=True)
        self._thread.start()

    def wait(self, count: int, seconds: float = 30.0) -> list[dict[str, Any]]:
        """The first events, once there are so many; fails when they do not come in time."""
        with self._grown:
            come = self._grown.wait_for(lambda: len(self.events) >= count or self.ended, seconds)
            assert come, f"{len(self.events)} of {count} events: {self.events}"
            assert len(self.events) >= count, f"the watch ended after {len(self.events)} of {count}: {self.events}"
            return self.events[:count]

    def wait_end(self, seconds: float = 30.0) -> None:
        """Wait until the server ends the watch."""
        with self._grown:
            assert self._grown.wait_for(lambda: self.ended, seconds), "the watch goes on"

    def close(self) -> None:
        """Hang up."""
        # A close alone would not wake the reading thread. The server may end the watch at this very moment.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._response.shutdown()
        self._thread.join(5)
        self._response.close()

    def _read(self) -> None:
        try:
            for line in self._lines():
                with self._grown:
                    self.events.append(json.loads(line))
                    self._grown.notify_all()
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            # Closed from here or from there, possibly within a line.
            pass
        with self._grown:
            self.ended = True
            self._grown.notify_all()

    def _lines(self) -> Iterator[bytes]:
        waiting = b""
        for chunk in self._response.stream(65536, decode_content=True):
            waiting += chunk
            *lines, waiting = waiting.split(b"\n")
            yield from (line for line in lines if line)


def names(answer: Answer) -> list[str]:
    """The names of the objects in a list."""
    return [item["metadata"]["name"] for item in answer.json["items"]]


def eventually(check: Any, seconds: float = 30.0) -> Any:
    """The first true answer of `check`; the test fails when there is none in time."""
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        assert time.monotonic() < end, f"last seen: {answer!r}"
        time.sleep(0.02)
