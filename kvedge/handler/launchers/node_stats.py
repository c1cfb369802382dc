"""What the guests of this node have used: all launchers asked at the same time, once for all who want to know.

Read by the relay through the door to launchers when somebody wants to know, and by the keeper of graphs every ten
seconds. A launcher that does not answer in time costs the others nothing: its guest is told of as one that did not
answer.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import grpc

from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.resources.codec import encode_json
from kvedge.resources.usage import guest_stats as told
from kvedge.rpc import launcher_pb2

# How long an answer is good.
FRESH_SECONDS: Final = 1.0
_LAUNCHER_SECONDS: Final = 1.0
# All launchers are asked at the same time.
_PATIENCE_SECONDS: Final = 5.0
# QEMU measures how fast guests change their memory while the relay is asked so often, not for graphs of ours.
_SCRAPED_SECONDS: Final = 150.0
# A launcher may say anything once its guest has broken out of QEMU: what is longer or more is cut.
_LONGEST_NAME: Final = 128
_MOST_PARTS: Final = 512
_MOST_FIGURES: Final = 64
_MOST_FILESYSTEMS: Final = 64


# When it was asked, on a clock that never goes back, and what each guest has used by then.
Look = tuple[float, Sequence[told.GuestStats]]


class StatsReader:
    """One answer, and the questions for the next one, for all who ask: of two a launcher would answer one in part."""

    def __init__(self, connections: LauncherConnections, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._connections = connections
        self._monotonic = monotonic
        self._asking: asyncio.Task[Look] | None = None
        self._scraped = -math.inf

    async def read(self) -> bytes:
        """The node's `NodeStats` as JSON, at most a second old; called in any event loop."""
        self._scraped = self._monotonic()
        _, guests = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._look(), self._connections.loop))
        return encode_json(told.NodeStats(guests=list(guests)))

    def look(self) -> Look:
        """The same for a thread without an event loop, with when it was asked; nobody when the node does not answer."""
        asking = asyncio.run_coroutine_threadsafe(self._look(), self._connections.loop)
        try:
            return asking.result(_PATIENCE_SECONDS)
        except TimeoutError:
            asking.cancel()
            return self._monotonic(), ()

    async def _look(self) -> Look:
        """In the loop of the connections."""
        asking = self._asking
        # Tests have a loop each.
        is_ours = asking is not None and asking.get_loop() is asyncio.get_running_loop()
        if asking is None or not is_ours or (asking.done() and not self._is_fresh(asking)):
            self._asking = asking = asyncio.create_task(self._ask())
        # A client that leaves does not take the answer away from others.
        return await asyncio.shield(asking)

    def _is_fresh(self, asked: asyncio.Task[Look]) -> bool:
        return asked.exception() is None and self._monotonic() - asked.result()[0] < FRESH_SECONDS

    async def _ask(self) -> Look:
        moment = self._monotonic()
        request = launcher_pb2.GetStatsRequest(dirty_rate=moment - self._scraped < _SCRAPED_SECONDS)
        return moment, await ask_launchers(self._connections, request)


async def ask_launchers(
    connections: LauncherConnections, request: launcher_pb2.GetStatsRequest
) -> list[told.GuestStats]:
    """What each guest of the node has used; in the loop of the connections."""
    found = await asyncio.gather(*(_ask_launcher(connections, key, request) for key in connections.known_keys()))
    return [guest for guest in found if guest is not None]


async def _ask_launcher(
    connections: LauncherConnections, key: Key, request: launcher_pb2.GetStatsRequest
) -> told.GuestStats | None:
    try:
        reply = await connections.call_async(key, "GetStats", request, _LAUNCHER_SECONDS)
    except LauncherCallError as error:
        if error.code is grpc.StatusCode.FAILED_PRECONDITION:
            # No guest runs there, yet or any more.
            return None
        # It hangs, or is of an earlier version. No log: it would be a line a second.
        return told.GuestStats(namespace=key[0], name=key[1])
    return read_stats(key, reply)


def read_stats(key: Key, reply: launcher_pb2.DomainStats) -> told.GuestStats:
    """What a launcher says, within bounds."""
    return told.GuestStats(
        namespace=key[0],
        name=key[1],
        answered=True,
        complete=reply.complete,
        figures=_figures(reply.figures.items()),
        vcpus=_parts(reply.vcpus),
        disks=_parts(reply.disks),
        nics=_parts(reply.nics),
        filesystems=[_filesystem(mount) for mount in reply.filesystems[:_MOST_FILESYSTEMS]],
    )


def _filesystem(mount: launcher_pb2.GuestFilesystem) -> told.FilesystemStats:
    return told.FilesystemStats(
        disk=mount.disk_name[:_LONGEST_NAME],
        mount_point=mount.mount_point[:_LONGEST_NAME],
        type=mount.type[:_LONGEST_NAME],
        used=mount.used_bytes,
        total=mount.total_bytes,
    )


def _parts(parts: Iterable[launcher_pb2.StatsPart]) -> list[told.StatsPart]:
    found: dict[str, told.StatsPart] = {}
    for number, part in enumerate(parts):
        if number >= _MOST_PARTS:
            break
        # Two of one name would make all series of a scrape unreadable: the first one counts.
        name = part.name[:_LONGEST_NAME]
        if name not in found:
            figures = _figures(part.figures.items())
            found[name] = told.StatsPart(name=name, state=part.state[:_LONGEST_NAME], figures=figures)
    return list(found.values())


def _figures(figures: Iterable[tuple[str, int]]) -> dict[str, int]:
    pairs = (pair for _, pair in zip(range(_MOST_FIGURES), figures, strict=False))
    return {name[:_LONGEST_NAME]: value for name, value in pairs}
