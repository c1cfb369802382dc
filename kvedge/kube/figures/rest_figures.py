"""What this process counts of its calls to the API server.

Fed by rest_edge.py; from any thread. Objects are not told apart: a path counts with `{namespace}` and `{name}` in it.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct

from kvedge.kube.figures.histogram import Histogram
from kvedge.resources.usage.role_stats import CallStats, LatencyStats

# As KubeVirt's.
_BOUNDS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0),
    *(3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
# KubeVirt's word for calls without an answer.
NO_ANSWER: Final = "<error>"
# Kinds, verbs and outcomes are few. What comes beyond is one more.
_MOST: Final = 512
_OTHER: Final = "<other>"
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class What(Struct, frozen=True):
    """What a call asks for."""

    resource: str
    verb: str
    url: str


class _Key(NamedTuple):
    code: str
    method: str
    host: str
    resource: str
    verb: str


def describe(method: str, path: str, *, watches: bool) -> What:
    """The resource, the verb and the path without names of objects."""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    # /api/v1/… and /apis/<group>/<version>/…
    head = 2 if parts[:1] == ["api"] else 3 if parts[:1] == ["apis"] else len(parts)
    found, rest = parts[:head], parts[head:]
    if len(rest) > 2 and rest[0] == "namespaces":
        found, rest = [*found, "namespaces", "{namespace}"], rest[2:]
    resource, named, subresource = (rest[0] if rest else ""), rest[1:2], rest[2:3]
    url = "/".join(["", *found, *rest[:1], *(["{name}"] if named else []), *subresource])
    return What(resource, _verb(method, is_named=bool(named), watches=watches), url)


def _verb(method: str, *, is_named: bool, watches: bool) -> str:
    if method in _VERBS:
        return _VERBS[method]
    if method == "DELETE":
        return "delete" if is_named else "deletecollection"
    return "watch" if watches else "get" if is_named else "list"


class RestFigures:
    """Counts of calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[_Key] = Counter()
        self._latencies: dict[tuple[str, str], Histogram] = {}

    def note(self, method: str, host: str, what: What, code: str, seconds: float) -> None:
        """A call was answered, or not, after so long."""
        key = _Key(code, method, urlsplit(host).netloc, what.resource, what.verb)
        place = (what.verb, what.url)
        with self._lock:
            if key not in self._calls and len(self._calls) >= _MOST:
                key = _Key(code, method, _OTHER, _OTHER, _OTHER)
            self._calls[key] += 1
            if place not in self._latencies and len(self._latencies) >= _MOST:
                place = (what.verb, _OTHER)
            self._latencies.setdefault(place, Histogram(_BOUNDS)).observe(seconds)

    def tell_calls(self) -> list[CallStats]:
        """How many there were of each kind."""
        with self._lock:
            return [CallStats(**key._asdict(), count=count) for key, count in self._calls.items()]

    def tell_latencies(self) -> list[LatencyStats]:
        """How long they took."""
        with self._lock:
            found = [(verb, url, times.tell()) for (verb, url), times in self._latencies.items()]
        return [LatencyStats(verb=verb, url=url, times=times) for verb, url, times in found]


REST_FIGURES: Final = RestFigures()
