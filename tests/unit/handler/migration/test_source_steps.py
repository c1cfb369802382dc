"""The source's steps, on a VMI in memory and a launcher that answers as it is told."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.handler.migration.source_plan import BEGIN_SECONDS
from kvedge.handler.migration.source_steps import SourceOutcome, SourceSteps, migrate_request
from kvedge.handler.pod_errors import PodNotReady
from kvedge.kube.errors import Conflict
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.clocks import FakeClock
from tests.support.migration_world import (
    ADDRESS,
    HERE,
    KEY,
    THERE,
    UID,
    Cache,
    Events,
    Launcher,
    Server,
    Ways,
    copying_vmi,
    leaving,
    moving_vmi,
    refusal,
    running,
)

BEGUN = {"targetNodeAddress": ADDRESS, "startTimestamp": "2026-05-01T00:00:00Z"}


class Source:
    """One handler whose guest is to leave."""

    def __init__(self, vmi: VirtualMachineInstance, status: pb.DomainStatus | None) -> None:
        self.server, self.cache = Server(vmi), Cache(vmi)
        self.launcher, self.ways, self.events, self.clock = Launcher(status), Ways(), Events(), FakeClock()
        self.steps = SourceSteps(
            self.server,  # type: ignore[arg-type]
            self.cache,  # type: ignore[arg-type]
            self.launcher,  # type: ignore[arg-type]
            self.ways,  # type: ignore[arg-type]
            self.events,  # type: ignore[arg-type]
            HERE,
            self.clock,
        )

    def look(self) -> SourceOutcome:
        vmi = self.cache.get()
        assert vmi is not None
        return self.steps.look(KEY, vmi, self.launcher.view())

    @property
    def state(self) -> MigrationState:
        state = self.server.vmi.status.migration_state
        assert state is not None
        return state


def source(status: pb.DomainStatus | None, **state: Any) -> Source:
    return Source(moving_vmi(**state), status)


def test_a_guest_leaves_step_by_step() -> None:
    at = source(running(), targetNodeAddress=ADDRESS)
    at.launcher.answers["Migrate"] = lambda: leaving(pb.OUTGOING_ACTIVE)
    assert at.look().changed
    assert (bool(at.state.start_timestamp), at.state.mode, at.launcher.methods) == (True, "PreCopy", [])
    at.look()
    assert at.launcher.methods == ["Migrate"]
    guest = at.ways.opened[UID]
    assert (guest.pod_uid, guest.target_node, guest.address) == ("pod-a", THERE, ADDRESS)
    assert not at.look().changed
    at.launcher.status = leaving(pb.OUTGOING_GONE)
    at.launcher.answers["Delete"] = lambda: pb.DomainStatus()
    assert at.look().changed
    assert at.state.source_node_domain_gone_timestamp
    assert at.launcher.methods == ["Migrate", "Delete"]
    at.launcher.status = None
    assert at.look() == SourceOutcome(left=True)
    assert at.ways.opened == {}
    assert at.events.said == [("Migrating", "VirtualMachineInstance is migrating.")]


def test_a_launcher_is_let_go_only_once_its_word_is_written() -> None:
    at = source(leaving(pb.OUTGOING_GONE), **BEGUN)
    at.server.change(targetNodeDomainDetected=True)
    with pytest.raises(Conflict):
        at.look()
    assert at.launcher.methods == []
    at.cache.observe(at.server.vmi)
    at.launcher.answers["Delete"] = refusal("busy", grpc.StatusCode.UNAVAILABLE)
    assert at.look().changed
    # It is told again as long as it is there.
    at.look()
    assert at.launcher.methods == ["Delete", "Delete"]
    # Also when the guest has been taken over meanwhile; and then no more.
    del at.launcher.answers["Delete"]
    at.steps.forget(KEY)
    at.steps.forget(KEY)
    assert at.launcher.methods == ["Delete"] * 3


def test_a_cancelled_guest_stays() -> None:
    at = source(leaving(pb.OUTGOING_ACTIVE), **BEGUN, abortRequested=True)
    assert at.look().changed
    assert (at.launcher.methods, at.state.abort_status) == (["AbortMigration"], "Aborting")
    # Not with each look.
    at.look()
    assert at.launcher.methods == ["AbortMigration"]
    at.clock.seconds += 5
    at.look()
    assert at.launcher.methods == ["AbortMigration"] * 2
    at.launcher.status = leaving(pb.OUTGOING_KEPT, message="job was cancelled")
    at.look()
    assert (at.state.failed, at.state.completed, at.state.abort_status) == (True, True, "Succeeded")
    assert at.state.failure_reason == "Live migration has been aborted"
    reasons = [text for reason, text in at.events.said if reason == "Migrated"]
    assert reasons == [f"VirtualMachineInstance migration uid {UID} failed. reason:Live migration has been aborted"]


def test_a_guest_that_gets_nowhere_stays_and_the_limit_is_named() -> None:
    at = source(leaving(pb.OUTGOING_ACTIVE, total_bytes=1 << 30, left_bytes=500), **BEGUN)
    at.look()
    at.clock.seconds += 151
    at.look()
    assert at.launcher.methods == ["AbortMigration"]
    at.launcher.status = leaving(pb.OUTGOING_KEPT, message="cancelled")
    at.look()
    assert "progressTimeout is 150 s" in at.state.failure_reason


def test_a_guest_that_may_stand_still_is_stopped_when_its_time_is_over_and_kept_after_twice_that_time() -> None:
    limits = {"allowWorkloadDisruption": True, "completionTimeoutPerGiB": 20, "progressTimeout": 0}
    at = source(leaving(pb.OUTGOING_ACTIVE, total_bytes=1 << 20), **BEGUN, migrationConfiguration=limits)
    at.look()
    at.clock.seconds += 41
    at.launcher.answers["HoldMigrating"] = refusal("busy", grpc.StatusCode.UNAVAILABLE)
    at.look()
    assert at.state.mode == ""
    del at.launcher.answers["HoldMigrating"]
    at.look()
    assert (at.launcher.methods, at.state.mode) == (["HoldMigrating"] * 2, "Paused")
    assert "stands still" in at.events.said[-1][1]
    at.look()
    at.clock.seconds += 40
    at.look()
    assert at.launcher.methods == ["HoldMigrating", "HoldMigrating", "AbortMigration"]


@pytest.mark.parametrize(
    ("trouble", "seconds"),
    [
        pytest.param(refusal("what?", grpc.StatusCode.UNIMPLEMENTED), 0.0, id="an answer that stays"),
        pytest.param(refusal("busy", grpc.StatusCode.UNAVAILABLE), BEGIN_SECONDS, id="one that might not"),
        pytest.param(PodNotReady("no certificate"), BEGIN_SECONDS, id="no way"),
    ],
)
def test_a_guest_that_cannot_begin_stays(trouble: Exception, seconds: float) -> None:
    at = source(running(), **BEGUN)
    if isinstance(trouble, PodNotReady):
        at.ways.refused = trouble
    else:
        at.launcher.answers["Migrate"] = trouble  # type: ignore[assignment]
    at.launcher.answers["AbortMigration"] = lambda: leaving(pb.OUTGOING_KEPT, message="cancelled")
    at.look()
    if seconds:
        at.look()
        assert "AbortMigration" not in at.launcher.methods
        at.clock.seconds += seconds
        at.look()
    at.look()
    assert at.launcher.methods[-1] == "AbortMigration"
    at.look()
    assert at.state.failure_reason.startswith("the guest did not begin to move: ")


def test_another_migration_than_the_launchers_is_one_that_has_not_begun() -> None:
    at = source(leaving(pb.OUTGOING_KEPT, uid="m-0"), **BEGUN)
    at.launcher.answers["Migrate"] = lambda: leaving(pb.OUTGOING_ACTIVE)
    at.look()
    assert at.launcher.methods == ["Migrate"]
    assert not at.state.failed


def test_the_way_of_an_earlier_migration_closes() -> None:
    at = source(running(), **BEGUN)
    at.look()
    at.cache.observe(at.server.change(migrationUid="m-2", startTimestamp=None, targetNodeAddress=None))
    at.look()
    assert at.ways.opened == {}
    at.steps.forget(KEY)


def asked(vmi: VirtualMachineInstance) -> pb.MigrateRequest:
    """The order for its launcher."""
    state = vmi.status.migration_state
    assert state is not None
    return migrate_request(vmi, state)


def test_how_a_guest_moves_is_what_was_decided_at_its_hand_over() -> None:
    decided = {"bandwidthPerMigration": "1500k", "allowAutoConverge": True, "maxDowntimeMs": 700}
    configuration = {**decided, "unsafeMigrationOverride": True}
    # Whole mebibytes are what libvirt takes.
    wanted = pb.MigrateRequest(migration_uid=UID, bandwidth_bytes=2 << 20, auto_converge=True, max_downtime_ms=700)
    wanted.unsafe = True
    assert asked(moving_vmi(migrationConfiguration=configuration)) == wanted
    assert asked(moving_vmi()) == pb.MigrateRequest(migration_uid=UID)
    to_device = pb.MigrateRequest(migration_uid=UID, copied_volumes=["data"], copied_devices=["data"])
    assert asked(copying_vmi(mode="Block")) == to_device
    assert asked(copying_vmi()) == pb.MigrateRequest(migration_uid=UID, copied_volumes=["data"])


@pytest.mark.parametrize(
    ("down", "runs", "left", "failed"),
    [(30.0, False, False, True), (29.0, False, False, False), (30.0, True, False, False), (30.0, False, True, False)],
)
def test_a_launcher_that_ended_without_a_word_has_kept_its_guest(
    down: float, runs: bool, left: bool, failed: bool
) -> None:
    at = source(None, **BEGUN)
    word = pb.DomainStatus(state=pb.DOMAIN_STATE_SHUTOFF) if left else None
    vmi = at.cache.get()
    assert vmi is not None
    at.steps.look(KEY, vmi, LauncherView(down_seconds=down, runs=runs, last_word=word))
    assert at.state.failed is failed
    assert ("without a word" in at.state.failure_reason) is failed
