"""What a launcher answers whose guest is still elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import grpc
import pytest

from kvedge.launcher.guest_probe import main
from kvedge.launcher.incoming_server import IncomingServer
from kvedge.launcher.launcher_errors import WrongState
from kvedge.launcher.migration.incoming_guest import IncomingGuest
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.rpc import launcher_pb2 as m
from kvedge.rpc.launcher_pb2_grpc import LauncherStub


class AbsentGuest:
    """One that does not come."""

    def release(self, uid: str, *, paused: bool) -> m.DomainStatus:
        raise WrongState(f"no guest waits to be released by {uid}, paused {paused}")

    def look(self) -> m.DomainStatus:
        return m.DomainStatus(incoming=m.IncomingMigration(state=m.INCOMING_COMPLETE))

    def discard(self, uid: str, why: str, *, if_nothing_came: bool) -> m.DomainStatus:
        raise WrongState(f"{uid} is not ended: {why}, {if_nothing_came}")


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[str]:
    server = IncomingServer(cast("IncomingGuest", AbsentGuest()), StatusBoard(), "u-1")
    server.start(str(tmp_path / "sock"))
    yield str(tmp_path / "sock")
    server.stop()


@pytest.mark.parametrize(
    "question", [("--guest-agent-ping",), ("--command", "/bin/false")], ids=["a ping", "a program"]
)
def test_a_probe_of_the_agent_does_not_fail_before_the_guest_is_there(socket: str, question: tuple[str, ...]) -> None:
    assert main(["--socket", socket, *question]) == 0


def test_whoever_asks_for_the_guest_is_told_of_it_as_it_is_now(socket: str) -> None:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call: Callable[..., m.DomainStatus] = LauncherStub(channel).GetDomain
        assert call(m.GetDomainRequest(), timeout=10).incoming.state == m.INCOMING_COMPLETE


def test_an_order_for_when_nothing_came_is_handed_on_as_such(socket: str) -> None:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call: Callable[..., m.DomainStatus] = LauncherStub(channel).DiscardIncoming
        with pytest.raises(grpc.RpcError) as refused:
            call(m.DiscardIncomingRequest(migration_uid="m-1", if_nothing_came=True), timeout=10)
    assert refused.value.details() == "m-1 is not ended: the migration was given up, True"


def test_what_cannot_be_done_is_refused_in_its_words(socket: str) -> None:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call: Callable[..., m.DomainStatus] = LauncherStub(channel).ReleaseIncoming
        with pytest.raises(grpc.RpcError) as refused:
            call(m.ReleaseIncomingRequest(migration_uid="m-1", paused=True), timeout=10)
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert refused.value.details() == "no guest waits to be released by m-1, paused True"
