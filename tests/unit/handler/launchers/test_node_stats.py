# Tests: kvedge/handler/launchers/node_stats.py, kvedge/resources/usage/guest_stats.py
"""All launchers are asked at once, once for all who want to know; one that hangs costs the others nothing."""

from __future__ import annotations

import asyncio

import grpc

from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError
from kvedge.handler.launchers.node_stats import StatsReader, read_stats
from kvedge.resources.codec import decode_json
from kvedge.resources.usage.guest_stats import FilesystemStats, GuestStats, NodeStats
from kvedge.rpc.launcher_pb2 import DomainStats, GetStatsRequest, GuestFilesystem, StatsPart

KEY = ("default", "web")


class Connections:
    """Launchers that answer, by name: a reply or a status code."""

    def __init__(self, **answers: DomainStats | grpc.StatusCode) -> None:
        self.answers = answers
        self.calls: list[tuple[str, str, float]] = []
        self.dirty_rates: list[bool] = []
        self.own_loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.own_loop or asyncio.get_running_loop()

    def known_keys(self) -> list[Key]:
        return [("default", name) for name in self.answers]

    async def call_async(self, key: Key, method: str, request: object, seconds: float) -> DomainStats:
        self.calls.append((key[1], method, seconds))
        assert isinstance(request, GetStatsRequest)
        self.dirty_rates.append(request.dirty_rate)
        answer = self.answers[key[1]]
        if isinstance(answer, grpc.StatusCode):
            raise LauncherCallError(answer, "")
        return answer


def read(connections: Connections) -> NodeStats:
    reader = StatsReader(connections)  # type: ignore[arg-type]  # all that it uses
    return decode_json(NodeStats, asyncio.run(reader.read()))


def test_each_guest_is_told_of_and_one_that_hangs_has_no_figures() -> None:
    hung = grpc.StatusCode.DEADLINE_EXCEEDED
    connections = Connections(web=DomainStats(complete=True, figures={"cpu.time": 5}), hung=hung)
    assert read(connections).guests == [
        GuestStats(namespace="default", name="web", answered=True, complete=True, figures={"cpu.time": 5}),
        GuestStats(namespace="default", name="hung"),
    ]
    assert connections.calls == [("web", "GetStats", 1.0), ("hung", "GetStats", 1.0)]


def test_a_launcher_without_a_guest_is_not_told_of() -> None:
    assert read(Connections(ended=grpc.StatusCode.FAILED_PRECONDITION)).guests == []


def test_launchers_are_asked_once_a_second_for_all_who_want_to_know() -> None:
    connections, now = Connections(web=DomainStats(complete=True)), [100.0]
    reader = StatsReader(connections, lambda: now[0])  # type: ignore[arg-type]  # all that it uses

    async def test() -> None:
        await asyncio.gather(*(reader.read() for _ in range(20)))
        await reader.read()
        assert len(connections.calls) == 1
        now[0] += 1.0
        await reader.read()
        assert len(connections.calls) == 2

    asyncio.run(test())


def test_a_thread_and_a_scrape_share_an_answer_with_its_moment() -> None:
    connections, now = Connections(web=DomainStats(complete=True)), [100.0]
    reader = StatsReader(connections, lambda: now[0])  # type: ignore[arg-type]  # all that it uses

    async def test() -> None:
        connections.own_loop = asyncio.get_running_loop()
        looking = asyncio.to_thread(reader.look)
        (moment, guests), _ = await asyncio.gather(looking, reader.read())
        assert (moment, [guest.name for guest in guests]) == (100.0, ["web"])
        assert len(connections.calls) == 1

    asyncio.run(test())


def test_a_relay_that_was_started_anew_reads_anew() -> None:
    connections = Connections(web=DomainStats(complete=True))
    reader = StatsReader(connections, lambda: 100.0)  # type: ignore[arg-type]  # all that it uses
    for _ in range(2):
        asyncio.run(reader.read())
    assert len(connections.calls) == 2


def test_a_launcher_that_says_too_much_is_cut() -> None:
    parts = [StatsPart(name="x" * 1000), StatsPart(name="x" * 1000), *(StatsPart(name=str(n)) for n in range(2000))]
    figures = {f"{'y' * 1000}{number}": 1 for number in range(200)}
    mounts = [GuestFilesystem(disk_name="d" * 1000, mount_point="m" * 1000, type="t" * 1000)] * 1000
    found = read_stats(KEY, DomainStats(disks=parts, figures=figures, filesystems=mounts))
    assert len(found.disks) <= 512
    assert [part.name for part in found.disks[:2]] == ["x" * 128, "0"]
    assert all(len(name) <= 128 for name in found.figures)
    assert len(found.figures) <= 64
    assert len(found.filesystems) == 64
    assert found.filesystems[0] == FilesystemStats(disk="d" * 128, mount_point="m" * 128, type="t" * 128)


def test_file_systems_come_with_the_figures() -> None:
    mount = GuestFilesystem(disk_name="vda1", mount_point="/", type="ext4", used_bytes=3, total_bytes=10)
    (guest,) = read(Connections(web=DomainStats(complete=True, filesystems=[mount]))).guests
    assert guest.filesystems == [FilesystemStats(disk="vda1", mount_point="/", type="ext4", used=3, total=10)]


def test_memory_is_measured_while_somebody_scrapes_and_not_for_graphs() -> None:
    connections, now = Connections(web=DomainStats(complete=True)), [100.0]
    reader = StatsReader(connections, lambda: now[0])  # type: ignore[arg-type]  # all that it uses

    async def test() -> None:
        connections.own_loop = asyncio.get_running_loop()
        await asyncio.to_thread(reader.look)
        now[0] = 110.0
        await reader.read()
        for moment in (120.0, 300.0):
            now[0] = moment
            await asyncio.to_thread(reader.look)
        assert connections.dirty_rates == [False, True, True, False]

    asyncio.run(test())
