"""A thousand objects and a hundred watchers, writers that get in each other's way, watchers that fall behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kvedge.standalone.apiserver.requests import watch_queue
from kvedge.standalone.apiserver.store import object_cache
from tests.contract.apiserver.conftest import Server, embedded, new_namespace
from tests.support.api_client import ApiClient, names
from tests.support.widgets import config_map, config_maps, widget, widgets

pytestmark = pytest.mark.contract

OBJECTS, WATCHERS = 1000, 100


@pytest.fixture
def lone_server(tmp_path: Path) -> Iterator[Server]:
    """An embedded API of the test's own, whose limits the test may have changed."""
    yield from embedded(tmp_path)


@asynccontextmanager
async def stream(server: Server, path: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The events of a watch."""
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=server.admin.context)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAccept: application/json\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head.partition(b"\r\n")[0], head

    async def events() -> AsyncIterator[dict[str, Any]]:
        waiting = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            waiting += await reader.readexactly(size)
            await reader.readexactly(2)
            *lines, waiting = waiting.split(b"\n")
            for line in lines:
                yield json.loads(line)

    try:
        yield events()
    finally:
        writer.transport.abort()


async def follow(server: Server, path: str, count: int) -> list[tuple[str, str, int]]:
    """The type, name and revision of the first events of a watch."""
    told: list[tuple[str, str, int]] = []
    async with stream(server, path) as events:
        async for event in events:
            metadata = event["object"]["metadata"]
            told.append((event["type"], metadata["name"], int(metadata["resourceVersion"])))
            if len(told) == count:
                break
    return told


def write_in_threads(server: Server, namespace: str, count: int, threads: int) -> None:
    """Create ConfigMaps, several at a time."""

    def write(start: int) -> None:
        client = server.log_in("admin", ["system:masters"])
        for number in range(start, count, threads):
            client.made(config_maps(namespace), config_map(f"c{number:04}", text="x" * 300))
        client.close()

    workers = [threading.Thread(target=write, args=(start,), name=f"writer-{start}") for start in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_a_hundred_watchers_see_a_thousand_objects_once_and_in_order(embedded_server: Server) -> None:
    namespace = new_namespace(embedded_server.admin)
    start = embedded_server.admin.get(config_maps(namespace)).json["metadata"]["resourceVersion"]
    path = f"{config_maps(namespace)}?watch=true&resourceVersion={start}"

    async def all_of_them() -> list[list[tuple[str, str, int]]]:
        followers = [asyncio.create_task(follow(embedded_server, path, OBJECTS)) for _ in range(WATCHERS)]
        await asyncio.to_thread(write_in_threads, embedded_server, namespace, OBJECTS, 4)
        return await asyncio.gather(*followers)

    told = asyncio.run(all_of_them())
    expected = [f"c{number:04}" for number in range(OBJECTS)]
    for events in told:
        assert sorted(name for _, name, _ in events) == expected
        assert {kind for kind, _, _ in events} == {"ADDED"}
        revisions = [revision for _, _, revision in events]
        assert revisions == sorted(set(revisions))
    assert len(embedded_server.admin.get(config_maps(namespace)).json["items"]) == OBJECTS


def test_two_watchers_from_one_revision_are_told_the_same(embedded_server: Server) -> None:
    admin = embedded_server.admin
    namespace = new_namespace(admin)
    start = admin.get(widgets(namespace)).json["metadata"]["resourceVersion"]
    path = f"{widgets(namespace)}?watch=true&resourceVersion={start}"
    for number in range(20):
        admin.made(widgets(namespace), widget(f"w{number}", 1))
        admin.patch(widgets(namespace, f"w{number}"), {"spec": {"size": 2}})

    async def both() -> list[list[tuple[str, str, int]]]:
        return await asyncio.gather(*(follow(embedded_server, path, 40) for _ in range(2)))

    one, other = asyncio.run(both())
    assert one == other
    revisions = [revision for _, _, revision in one]
    assert revisions == sorted(set(revisions))


def test_of_writers_with_one_version_exactly_one_wins(embedded_server: Server) -> None:
    admin = embedded_server.admin
    namespace = new_namespace(admin)
    admin.made(widgets(namespace), widget("a", 1, replicas=0))
    path = widgets(namespace, "a")
    conflicts: list[int] = []

    def count_up() -> None:
        client = embedded_server.log_in("admin", ["system:masters"])
        for _ in range(10):
            while True:
                obj = client.get(path).json
                obj["spec"]["replicas"] += 1
                status = client.put(path, obj).status
                if status == 200:
                    break
                conflicts.append(status)
        client.close()

    threads = [threading.Thread(target=count_up, name=f"counter-{number}") for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert admin.get(path).json["spec"]["replicas"] == 40
    assert set(conflicts) <= {409}
    assert conflicts


def test_patches_that_name_no_version_all_arrive(embedded_server: Server) -> None:
    admin = embedded_server.admin
    namespace = new_namespace(admin)
    admin.made(config_maps(namespace), config_map("a"))

    def patch(writer: int) -> None:
        client = embedded_server.log_in("admin", ["system:masters"])
        for number in range(10):
            answer = client.patch(config_maps(namespace, "a"), {"data": {f"k{writer}-{number}": "x"}})
            assert answer.status == 200, answer.body
        client.close()

    threads = [threading.Thread(target=patch, args=(number,), name=f"patcher-{number}") for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admin.get(config_maps(namespace, "a")).json["data"]) == 50


def test_what_is_no_longer_kept_is_gone_and_a_new_list_goes_on(
    lone_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_cache, "MAX_CHANGES", 20)
    admin: ApiClient = lone_server.admin
    for number in range(10):
        admin.made(config_maps("default"), config_map(f"c{number}"))
    page = admin.get(config_maps("default"), limit="3").json
    old = page["metadata"]["resourceVersion"]
    for number in range(30):
        admin.patch(config_maps("default", "c0"), {"data": {"n": str(number)}})
    watch = admin.watch(config_maps("default"), resourceVersion=old)
    event = watch.wait(1)[0]
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {old} (")
    watch.close()
    expired = admin.get(config_maps("default"), limit="3", **{"continue": page["metadata"]["continue"]})
    assert (expired.status, expired.json["reason"]) == (410, "Expired")
    exact = admin.get(config_maps("default"), resourceVersion=old, resourceVersionMatch="Exact")
    assert exact.status == 410
    fresh = admin.get(config_maps("default")).json["metadata"]["resourceVersion"]
    resumed = admin.watch(config_maps("default"), resourceVersion=fresh)
    admin.delete(config_maps("default", "c1"))
    assert resumed.wait(1)[0]["type"] == "DELETED"
    resumed.close()


def test_a_watcher_that_does_not_read_is_cut_off_and_others_are_not_held_up(
    lone_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_queue, "QUEUE_LIMIT", 50)
    admin = lone_server.admin
    admin.made(config_maps("default"), config_map("big"))
    address = urlsplit(lone_server.url)
    plain = socket.create_connection((address.hostname, address.port or 0))
    lazy: ssl.SSLSocket = admin.context.wrap_socket(plain, server_hostname=address.hostname)
    request = f"GET {config_maps('default')}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n"
    lazy.sendall(request.encode())
    assert lazy.recv(1)
    quick = admin.watch(config_maps("default"), fieldSelector="metadata.name=last")

    try:
        for number in range(600):
            admin.patch(config_maps("default", "big"), {"data": {"text": f"{number:03}" * 15_000}})
        # What the kernel had taken is still delivered; then the connection ends, which that of a good watcher never
        # does.
        lazy.settimeout(10)
        with contextlib.suppress(ssl.SSLEOFError, ConnectionResetError):
            while lazy.recv(1 << 20):
                pass
    finally:
        lazy.close()
    admin.made(config_maps("default"), config_map("last"))
    assert quick.wait(1)[0]["object"]["metadata"]["name"] == "last"
    quick.close()
    assert "big" in names(admin.get(config_maps("default")))
