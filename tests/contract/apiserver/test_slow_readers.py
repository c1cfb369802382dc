"""Clients that take their time, times large objects: what they leave in the server's memory is bounded by bytes.

Each test measures the resident memory of a server that is a process of its own.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.standalone.apiserver.requests.bytes_in_flight import ALL_BYTES, USER_BYTES
from kvedge.standalone.apiserver.requests.request_body import LIMIT
from kvedge.standalone.apiserver.store.object_cache import MOST_CHANGE_BYTES
from tests.support.api_client import ApiClient, Watch, eventually
from tests.support.api_nursery import ApiNursery, ApiProcess, nursery
from tests.support.widgets import WIDGET_CRD, config_map, config_maps, widget, widgets

pytestmark = pytest.mark.contract

_MB = 1 << 20
# A request of the largest size is in memory some times over while it is worked on, and the allocator keeps some.
_WORK = 48 * _MB
_LARGE = 1_600_000
_LISTED = 12
_SLOW = 40


@pytest.fixture(scope="module")
def born() -> Iterator[ApiNursery]:
    with nursery() as made:
        yield made


@pytest.fixture
def process(born: ApiNursery, tmp_path: Path) -> Iterator[ApiProcess]:
    """A server whose memory is its own, with the Widget kind."""
    made = born.start(tmp_path)
    client = made.client()
    client.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGET_CRD)
    eventually(lambda: client.get("/apis/example.com/v1/widgets").status == 200)
    client.close()
    yield made
    made.kill()


@pytest.fixture
def admin(process: ApiProcess) -> Iterator[ApiClient]:
    client = process.client()
    yield client
    client.close()


def get(path: str, headers: str = "") -> bytes:
    """A request for a path, as bytes."""
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode()


@contextlib.contextmanager
def slow_readers(process: ApiProcess, requests: list[bytes]) -> Iterator[list[socket.socket]]:
    """A connection for each request, of which nothing is read."""
    raw = process.raw()
    connections = [raw.secure(30.0) for _ in requests]
    try:
        for connection, request in zip(connections, requests, strict=True):
            connection.sendall(request)
        yield connections
    finally:
        for connection in connections:
            connection.close()


def fill(admin: ApiClient) -> None:
    """A list of some 12 MB."""
    for number in range(_LISTED):
        admin.made(config_maps("default"), config_map(f"c{number}", text="x" * 1_000_000))


def patch_often(admin: ApiClient, times: int, watch: Watch | None = None) -> None:
    """Change the large Widget; the watcher, who reads at once, is told of each change."""
    for number in range(times):
        seen = len(watch.events) if watch is not None else 0
        assert admin.patch(widgets("default", "big"), {"spec": {"size": number % 9 + 2}}).status == 200
        if watch is not None:
            watch.wait(seen + 1)


@pytest.mark.parametrize("watched", [False, True], ids=["nobody watches", "watched"])
def test_a_large_object_that_is_patched_a_hundred_times_costs_its_history_and_no_more(
    process: ApiProcess, admin: ApiClient, watched: bool
) -> None:
    start = admin.get(widgets("default")).json["metadata"]["resourceVersion"]
    admin.made(widgets("default"), widget("big", 1, free={"text": "x" * _LARGE}))
    watch = admin.watch(widgets("default")) if watched else None
    if watch is not None:
        watch.wait(1)
    patch_often(admin, 3, watch)
    before = process.memory()
    patch_often(admin, 100, watch)
    assert process.memory() - before < MOST_CHANGE_BYTES + _WORK
    # Who knows only what came before is told to list again, as Kubernetes has it.
    late = admin.watch(widgets("default"), resourceVersion=start)
    event = late.wait(1)[0]
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    late.close()
    if watch is not None:
        watch.close()


@pytest.mark.parametrize(
    "query",
    ["", "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"],
    ids=["from now on", "with the state first"],
)
def test_slow_watchers_that_began_one_after_another_hold_what_the_history_holds(
    process: ApiProcess, admin: ApiClient, query: str
) -> None:
    admin.made(widgets("default"), widget("big", 1, free={"text": "x" * _LARGE}))
    patch_often(admin, 3)
    before = process.memory()
    watch = get(f"{widgets('default')}{query or '?'}&watch=true".replace("?&", "?"))
    with contextlib.ExitStack() as held:
        connections = []
        for _ in range(_SLOW):
            # Each is in the middle of a version of its own.
            connections += held.enter_context(slow_readers(process, [watch]))
            assert connections[-1].recv(1)
            patch_often(admin, 3)
        assert process.memory() - before < MOST_CHANGE_BYTES + _WORK
        eventually(lambda: not is_open_to_the_end(connections[0]))


def is_open_to_the_end(connection: socket.socket) -> bool:
    """Whether the other side has not hung up, after everything that came meanwhile."""
    connection.settimeout(0.05)
    try:
        while connection.recv(1 << 20):
            pass
    except TimeoutError:
        return True
    except OSError:
        return False
    return False


@pytest.mark.parametrize(
    "ask",
    [
        get(config_maps("default")),
        get(config_maps("default"), "Connection: Upgrade\r\nUpgrade: x\r\n"),
        get(config_maps("default"), "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
        get(config_maps("default") + "?follow=true"),
        get(config_maps("default"), "Accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\n").replace(
            b" HTTP", b"?includeObject=Object HTTP"
        ),
    ],
    ids=["plain", "an upgrade to x", "an upgrade to websocket", "follow", "table"],
)
def test_lists_for_slow_readers_are_bounded_for_each_user(process: ApiProcess, admin: ApiClient, ask: bytes) -> None:
    fill(admin)
    assert admin.get(config_maps("default")).status == 200
    before = process.memory()
    with slow_readers(process, [ask] * _SLOW) as connections:
        refused = [connection for connection in connections if refusal_of(connection)]
        # Of 12 MB each, four fit.
        assert len(refused) >= _SLOW - USER_BYTES // (_LISTED * 1_000_000) - 1
        assert process.memory() - before < USER_BYTES + _WORK
        # What is small is answered all the same.
        assert admin.get("/version").status == 200
    eventually(lambda: admin.get(config_maps("default")).status == 200)


def refusal_of(connection: socket.socket) -> bytes:
    """The refusal that came, empty when it is another answer."""
    answer = received_head(connection)
    if b" 429 " not in answer.split(b"\r\n", 1)[0]:
        return b""
    assert b"\r\nretry-after: 1\r\n" in answer.lower()
    return answer


def is_answered(connection: socket.socket) -> bool:
    """Whether something has come, or the other side has hung up, though the request has not ended."""
    connection.settimeout(0.2)
    try:
        connection.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def received_head(connection: socket.socket) -> bytes:
    """The beginning of what comes; the rest stays where it is."""
    connection.settimeout(30)
    return connection.recv(512)


@pytest.mark.parametrize("path", ["/openapi/v2?watch=1", "/apis?watch=1", config_maps("default", "c0") + "?watch=1"])
def test_what_is_no_watch_does_not_last_for_being_called_one(process: ApiProcess, admin: ApiClient, path: str) -> None:
    fill(admin)
    before = process.memory()
    with slow_readers(process, [get(path)] * _SLOW) as connections:
        for connection in connections:
            assert received_head(connection).startswith(b"HTTP/1.1 ")
        assert process.memory() - before < USER_BYTES + _WORK


def test_a_user_who_holds_much_does_not_keep_others_away(process: ApiProcess, admin: ApiClient) -> None:
    fill(admin)
    with slow_readers(process, [get(config_maps("default"))] * 8) as connections:
        for connection in connections:
            received_head(connection)
        other = ApiClient(process.url, process.raw_of("other").context)
        for _ in range(3):
            assert other.get(config_maps("default")).status == 200
        # A write is refused before it is done, not after.
        refused = admin.patch(widgets("default", "none"), {"spec": {"size": 1}})
        assert (refused.status, refused.json["reason"], refused.headers["Retry-After"]) == (429, "TooManyRequests", "1")
        other.close()
    eventually(lambda: admin.patch(widgets("default", "none"), {"spec": {"size": 1}}).status == 404)


@pytest.mark.parametrize("announced", [True, False], ids=["with a length", "in chunks"])
def test_large_bodies_that_do_not_end_are_bounded(process: ApiProcess, admin: ApiClient, announced: bool) -> None:
    size = LIMIT - 1000
    length = f"Content-Length: {LIMIT}" if announced else "Transfer-Encoding: chunked"
    head = f"POST {config_maps('default')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    body = b'{"a":"' + b"x" * size
    sent = head.encode() + (body if announced else f"{len(body):x}\r\n".encode() + body)
    before = process.memory()
    raw = process.raw()
    with contextlib.ExitStack() as held:
        refused = 0
        for _ in range(_SLOW):
            connection = held.enter_context(contextlib.closing(raw.secure(5.0)))
            with contextlib.suppress(OSError):
                connection.sendall(sent)
            refused += is_answered(connection)
        assert refused >= _SLOW - USER_BYTES // LIMIT - 1
        assert process.memory() - before < USER_BYTES + _WORK


def test_all_users_together_are_bounded(process: ApiProcess, admin: ApiClient) -> None:
    fill(admin)
    before = process.memory()
    with contextlib.ExitStack() as held:
        users = [process.raw_of(f"user-{number}") for number in range(8)]
        for raw in users:
            for _ in range(5):
                connection = held.enter_context(contextlib.closing(raw.secure(30.0)))
                connection.sendall(get(config_maps("default")))
                received_head(connection)
        # Each has at least one answer; only those beyond their first count against all.
        assert process.memory() - before < ALL_BYTES + len(users) * _LISTED * 1_000_000 + _WORK


def test_an_answer_that_was_refused_can_be_had_once_others_are_taken(process: ApiProcess, admin: ApiClient) -> None:
    fill(admin)
    with slow_readers(process, [get(config_maps("default"), "Connection: close\r\n")] * 6) as connections:
        heads = [received_head(connection) for connection in connections]
        assert any(b" 429 " in head for head in heads)
        for connection in connections:
            connection.settimeout(30)
            while connection.recv(1 << 20):
                pass
        assert admin.get(config_maps("default")).status == 200
