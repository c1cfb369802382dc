# Tests: kvedge/launcher/launcher_service.py
"""Which status code says what, and who waits for whom."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import cast

import grpc
import pytest

from kvedge.launcher.launcher_errors import (
    BadRequest,
    DeviceUnusable,
    DiskFull,
    DomainMissing,
    LibvirtFailed,
    Postponed,
    Unanswered,
    WrongState,
)
from kvedge.launcher.launcher_server import LONGEST_PROBE, MOST_PROBES, LauncherServer
from kvedge.launcher.launcher_service import status_code
from kvedge.launcher.run.domain_run import DomainRun
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.rpc import launcher_pb2 as messages
from kvedge.rpc.launcher_pb2_grpc import LauncherStub

CASES = {
    "the domain is in the wrong state": (WrongState("x"), grpc.StatusCode.FAILED_PRECONDITION),
    "the guest moves just now": (Postponed("x"), grpc.StatusCode.ABORTED),
    "a device cannot be used now": (DeviceUnusable("x", "y", "z"), grpc.StatusCode.FAILED_PRECONDITION),
    "there is no domain": (DomainMissing("x"), grpc.StatusCode.FAILED_PRECONDITION),
    "the VMI makes no domain": (BadRequest("spec", "x"), grpc.StatusCode.INVALID_ARGUMENT),
    "the disk is full": (DiskFull("/x", "y"), grpc.StatusCode.RESOURCE_EXHAUSTED),
    "the file system says so itself": (OSError(errno.ENOSPC, "x"), grpc.StatusCode.RESOURCE_EXHAUSTED),
    "the quota is used up": (OSError(errno.EDQUOT, "x"), grpc.StatusCode.RESOURCE_EXHAUSTED),
    "nobody answered": (Unanswered("x"), grpc.StatusCode.UNAVAILABLE),
    "libvirt failed": (LibvirtFailed("x", 1, 2, "y"), grpc.StatusCode.INTERNAL),
    "a file is not readable": (OSError(errno.EACCES, "x"), grpc.StatusCode.INTERNAL),
}


@pytest.mark.parametrize(("error", "code"), CASES.values(), ids=CASES)
def test_each_kind_of_error_has_its_code(error: Exception, code: grpc.StatusCode) -> None:
    assert status_code(error) is code


class HangingRun:
    """A run whose guest takes its time."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.asked: list[int] = []
        self.board = StatusBoard()

    def ping_guest(self, seconds: int) -> None:
        self.asked.append(seconds)
        self.waiting.release()
        self.release.wait(10)


def test_only_so_many_probes_wait_for_a_guest_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    run = HangingRun()
    server = LauncherServer(cast("DomainRun", run), "u-1")
    server.start(str(tmp_path / "sock"))
    with grpc.insecure_channel(f"unix:{tmp_path}/sock") as channel:
        stub = LauncherStub(channel)  # type: ignore[no-untyped-call]  # generated
        request = messages.GuestPingRequest(timeout_seconds=100_000)
        waiting = [stub.GuestPing.future(request, timeout=20) for _ in range(MOST_PROBES)]
        for _ in waiting:
            assert run.waiting.acquire(timeout=10)
        with pytest.raises(grpc.RpcError) as refused:
            stub.GuestPing(messages.GuestPingRequest(), timeout=10)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert stub.Ping(messages.PingRequest(), timeout=10).vmi_uid == "u-1"
        run.release.set()
        for call in waiting:
            assert call.result(timeout=10) == messages.GuestPingReply()
        stub.GuestPing(messages.GuestPingRequest(), timeout=10)
    server.stop()
    assert run.asked == [LONGEST_PROBE] * MOST_PROBES + [1]
