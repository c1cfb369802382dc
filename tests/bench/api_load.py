"""Load on the embedded API: many writers and watchers on many objects for a while; what they saw, and what it took.

Used by `tests/bench/api_bench`. Writers and watchers run in one process each, so that they do not wait for each other.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import random
import ssl
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

import aiohttp

from tests.support.api_nursery import ApiProcess

_PATH = "/api/v1/namespaces/default/configmaps"
_TEXT = "x" * 500
_REVISION = b'"resourceVersion":"'
# Watchers begin before the writers, and have this long to take what is still under way at the end.
_SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of the server."""

    writers: int = 50
    watchers: int = 200
    objects: int = 2000
    seconds: float = 60.0


@dataclass(slots=True)
class Figures:
    """What came of it; times in seconds, memory in bytes."""

    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    events: int = 0
    faults: list[str] = field(default_factory=list)
    memory_before: int = 0
    memory_most: int = 0
    memory_after: int = 0
    cpu_seconds: float = 0.0


async def fill(process: ApiProcess, count: int) -> None:
    """Make the objects."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=process.context(), limit=16)) as session:

        async def make(number: int) -> None:
            async with session.post(f"{process.url}{_PATH}", json=_object(number, "0")) as response:
                assert response.status == 201, await response.text()

        for start in range(0, count, 64):
            await asyncio.gather(*(make(number) for number in range(start, min(count, start + 64))))


def _object(number: int, value: str) -> dict[str, object]:
    metadata = {"name": f"c{number:05}", "labels": {"app": f"a{number % 10}"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value, "text": _TEXT}}


async def write(process: ApiProcess, load: Load) -> tuple[list[float], int]:
    """Each writer changes one object after the other; the time of each answer, and how many were no success."""
    latencies: list[float] = []
    refused = 0
    end = time.monotonic() + load.seconds

    async def one(session: aiohttp.ClientSession, number: int) -> None:
        nonlocal refused
        chance = random.Random(number)
        for turn in itertools.count():
            if time.monotonic() > end:
                return
            name = f"c{chance.randrange(load.objects):05}"
            body = json.dumps({"data": {"value": f"{number}-{turn}"}})
            begin = time.monotonic()
            headers = {"Content-Type": "application/merge-patch+json"}
            async with session.patch(f"{process.url}{_PATH}/{name}", data=body, headers=headers) as response:
                await response.read()
            latencies.append(time.monotonic() - begin)
            refused += response.status != 200

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=process.context(), limit=0)) as session:
        await asyncio.gather(*(one(session, number) for number in range(load.writers)))
    return latencies, refused


class Watcher:
    """One watch, from a revision on: every event once, in order."""

    def __init__(self) -> None:
        self.events = 0
        self.last = 0
        self.fault = ""

    async def follow(self, url: str, context: ssl.SSLContext, start: str) -> None:
        """Read until the connection ends or the task is cancelled."""
        address = urlsplit(url)
        try:
            reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=context, limit=1 << 22)
        except OSError as error:
            self.fault = f"no connection: {error}"
            return
        request = f"GET {_PATH}?watch=true&resourceVersion={start} HTTP/1.1\r\nHost: x\r\n\r\n"
        writer.write(request.encode())
        try:
            await reader.readuntil(b"\r\n\r\n")
            waiting = b""
            while size := int(await reader.readuntil(b"\r\n"), 16):
                chunk = await reader.readexactly(size + 2)
                *lines, waiting = (waiting + chunk[:-2]).split(b"\n")
                for line in lines:
                    self._take(line)
            self.fault = self.fault or "the server ended it"
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            self.fault = self.fault or f"{type(error).__name__}: {error}"
        finally:
            writer.transport.abort()

    def _take(self, line: bytes) -> None:
        place = line.find(_REVISION) + len(_REVISION)
        revision = int(line[place : line.index(b'"', place)])
        if revision <= self.last or not line.startswith(b'{"type":"MODIFIED"'):
            self.fault = self.fault or f"{line[:80]!r} after revision {self.last}"
        self.last = revision
        self.events += 1


def _watch_all(process: ApiProcess, count: int, start: str, pipe: Connection) -> None:
    """The process of the watchers: says when all of them are connected; told the last revision, says what they saw."""

    async def run() -> list[tuple[int, int, str]]:
        watchers = [Watcher() for _ in range(count)]
        context = process.context()
        tasks = [asyncio.create_task(watcher.follow(process.url, context, start)) for watcher in watchers]
        await asyncio.sleep(1.0)
        pipe.send("ready")
        last = await asyncio.to_thread(pipe.recv)
        end = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < end and any(watcher.last < last and not watcher.fault for watcher in watchers):
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [(watcher.events, watcher.last, watcher.fault) for watcher in watchers]

    pipe.send(asyncio.run(run()))


async def _measured(process: ApiProcess, load: Load, figures: Figures) -> None:
    async def sample() -> None:
        while True:
            figures.memory_most = max(figures.memory_most, process.memory())
            await asyncio.sleep(0.5)

    sampling = asyncio.create_task(sample())
    try:
        figures.latencies, figures.refused = await write(process, load)
    finally:
        sampling.cancel()


def put_under_load(process: ApiProcess, load: Load) -> Figures:
    """Fill the server, load it, and hold what the watchers saw against what the writers did."""
    figures = Figures()
    asyncio.run(fill(process, load.objects))
    client = process.client()
    start = client.get(_PATH, limit="1").json["metadata"]["resourceVersion"]
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    watching = multiprocessing.get_context("spawn").Process(
        target=_watch_all, args=(process, load.watchers, start, theirs), daemon=True
    )
    watching.start()
    assert ours.poll(60), "the watchers did not connect"
    assert ours.recv() == "ready"
    figures.memory_before = process.memory()
    cpu = process.cpu_seconds()
    asyncio.run(_measured(process, load, figures))
    figures.cpu_seconds = process.cpu_seconds() - cpu
    last = int(client.get(_PATH, limit="1").json["metadata"]["resourceVersion"])
    ours.send(last)
    assert ours.poll(_SETTLE_SECONDS + 30), "the watchers did not end"
    seen = ours.recv()
    watching.join(10)
    written = len(figures.latencies) - figures.refused
    for number, (events, reached, fault) in enumerate(seen):
        figures.events += events
        if fault or events != written:
            figures.faults.append(f"watcher {number}: {events} of {written} events, up to {reached} of {last}; {fault}")
    figures.memory_after = process.memory()
    client.close()
    return figures
