"""Channels to launchers, whose addresses are numbers of descriptors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from kvedge.handler.launcher_connections import CHANNEL_OPTIONS
from kvedge.rpc import launcher_pb2, launcher_pb2_grpc


class _Launcher(launcher_pb2_grpc.LauncherServicer):  # type: ignore[misc]  # generated
    def __init__(self, uid: str) -> None:
        self._uid = uid

    def Ping(self, request: Any, context: Any) -> Any:
        return launcher_pb2.PingReply(vmi_uid=self._uid)


@contextmanager
def launcher(path: Path) -> Iterator[None]:
    """A launcher of the VMI whose UID is the socket's name."""
    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        launcher_pb2_grpc.add_LauncherServicer_to_server(_Launcher(path.name), server)  # type: ignore[no-untyped-call]
        server.add_insecure_port(f"unix:{path}")
        server.start()
        try:
            yield
        finally:
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
