"""Channels to launchers, whose addresses are numbers of descriptors."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from kvedge.handler.launchers import launcher_connections
from kvedge.handler.launchers.launcher_connections import CHANNEL_OPTIONS, LauncherCallError, LauncherConnections
from kvedge.kube.work_queue import Key
from kvedge.rpc import launcher_pb2, launcher_pb2_grpc


class _Launcher(launcher_pb2_grpc.LauncherServicer):  # type: ignore[misc]  # generated
    def __init__(self, uid: str) -> None:
        self._uid = uid
        self.asked, self.ended = threading.Event(), threading.Event()

    def Ping(self, request: Any, context: Any) -> Any:
        return launcher_pb2.PingReply(vmi_uid=self._uid)

    def Shutdown(self, request: Any, context: Any) -> Any:
        self.asked.set()
        self.ended.wait(20)
        return launcher_pb2.DomainStatus()

    def Screenshot(self, request: Any, context: Any) -> Any:
        yield launcher_pb2.ScreenshotChunk(data=b"a")
        self.Shutdown(request, context)


@contextmanager
def launcher(path: Path) -> Iterator[_Launcher]:
    """A launcher of the VMI whose UID is the socket's name."""
    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        servicer = _Launcher(path.name)
        launcher_pb2_grpc.add_LauncherServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
        server.add_insecure_port(f"unix:{path}")
        server.start()
        try:
            yield servicer
        finally:
            servicer.ended.set()
            server.stop(None).wait()


async def asked(descriptor: int) -> tuple[Any, str]:
    """A channel, and who answers on it."""
    channel = grpc.aio.insecure_channel(f"unix:/proc/self/fd/{descriptor}", options=CHANNEL_OPTIONS)
    reply = await launcher_pb2_grpc.LauncherStub(channel).Ping(launcher_pb2.PingRequest())  # type: ignore[no-untyped-call]
    return channel, reply.vmi_uid


def test_a_number_that_is_used_again_leads_to_its_own_launcher_and_not_to_the_one_before(tmp_path: Path) -> None:
    async def ask_both() -> list[str]:
        with ExitStack() as stack:
            first = os.open(tmp_path / "first", os.O_PATH)
            stack.callback(os.close, first)
            before, one = await asked(first)
            second = os.open(tmp_path / "second", os.O_PATH)
            stack.callback(os.close, second)
            os.dup2(second, first)
            after, other = await asked(first)
            await before.close()
            await after.close()
            return [one, other]

    with launcher(tmp_path / "first"), launcher(tmp_path / "second"):
        assert asyncio.run(ask_both()) == ["first", "second"]


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[LauncherConnections]:
    found = LauncherConnections(tmp_path, lambda key: None)
    found.start()
    yield found
    found.stop()


KEY = Key("default", "web")


def connect(connections: LauncherConnections, path: Path) -> Any:
    """Make a channel the connection of a VMI; what closes it, as when the VMI has gone."""

    async def opened() -> Any:
        channel = grpc.aio.insecure_channel(f"unix:{path}", options=CHANNEL_OPTIONS)
        connection = launcher_connections._Connection(KEY, path.name, "pod")
        connection.stub = launcher_pb2_grpc.LauncherStub(channel)  # type: ignore[no-untyped-call]
        connections._connections[KEY] = connection
        return channel

    channel = asyncio.run_coroutine_threadsafe(opened(), connections.loop).result(10)
    return lambda: asyncio.run_coroutine_threadsafe(channel.close(), connections.loop).result(10)


@pytest.mark.parametrize("streamed", [False, True], ids=["one answer", "a stream"])
def test_a_call_whose_vmi_goes_meanwhile_ends_as_one_to_a_launcher_that_is_not_connected(
    connections: LauncherConnections, tmp_path: Path, streamed: bool
) -> None:
    def call() -> object:
        if not streamed:
            return connections.call(KEY, "Shutdown", launcher_pb2.ShutdownRequest(), 20)
        collecting = connections.collect_async(KEY, "Screenshot", launcher_pb2.ScreenshotRequest(), 20, 1 << 20)
        return asyncio.run_coroutine_threadsafe(collecting, connections.loop).result(20)

    with launcher(tmp_path / "uid") as servicer, futures.ThreadPoolExecutor(1) as caller:
        close = connect(connections, tmp_path / "uid")
        calling = caller.submit(call)
        assert servicer.asked.wait(10)
        close()
        with pytest.raises(LauncherCallError, match="not connected") as failed:
            calling.result(10)
        assert failed.value.code is grpc.StatusCode.UNAVAILABLE


def test_a_call_that_somebody_cancels_is_cancelled(connections: LauncherConnections, tmp_path: Path) -> None:
    with launcher(tmp_path / "uid") as servicer:
        close = connect(connections, tmp_path / "uid")
        calling = asyncio.run_coroutine_threadsafe(
            connections.call_async(KEY, "Shutdown", launcher_pb2.ShutdownRequest(), 20), connections.loop
        )
        assert servicer.asked.wait(10)
        calling.cancel()
        with pytest.raises(futures.CancelledError):
            calling.result(10)
        close()


def test_a_call_that_is_under_way_when_the_handler_ends_is_no_defect(tmp_path: Path) -> None:
    connections = LauncherConnections(tmp_path, lambda key: None)
    connections.start()
    with launcher(tmp_path / "uid") as servicer, futures.ThreadPoolExecutor(1) as caller:
        connect(connections, tmp_path / "uid")
        calling = caller.submit(connections.call, KEY, "Shutdown", launcher_pb2.ShutdownRequest(), 20)
        assert servicer.asked.wait(10)
        connections.stop()
        with pytest.raises(LauncherCallError, match="not connected"):
            calling.result(10)
