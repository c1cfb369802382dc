"""The target's steps, on a VMI in memory and a launcher that answers as it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.handler.migration import target_steps
from kvedge.handler.migration.crossing_desk import CrossingDesk
from kvedge.handler.migration.crossing_target import CrossingTarget
from kvedge.handler.migration.incoming_channels import ExpectedGuest, IncomingChannels
from kvedge.handler.migration.target_plan import PREPARE_SECONDS
from kvedge.handler.migration.target_steps import PodOfGuest, TargetSteps
from kvedge.handler.pod_errors import PodNotReady
from kvedge.kube.errors import Conflict
from kvedge.kube.reconcile_loop import Again
from kvedge.resources.moves.crossing import SourceWords, crossing_server_name
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
    coming,
    copying_vmi,
    moving_vmi,
    refusal,
)

BEGUN = {"targetNodeAddress": ADDRESS, "startTimestamp": "2026-05-01T00:00:00Z", "targetNodeDomainDetected": True}
LEFT = {**BEGUN, "sourceNodeDomainGoneTimestamp": "2026-05-01T00:00:05Z"}


class Target:
    """One handler that a guest comes to."""

    def __init__(self, vmi: VirtualMachineInstance, status: pb.DomainStatus | None) -> None:
        self.server, self.cache, self.own = Server(vmi), Cache(vmi), Cache()
        self.launcher, self.events, self.clock = Launcher(status), Events(), FakeClock()
        self.channels = IncomingChannels(Path("/nowhere"))
        self.prepared = 0
        self.failing: Exception | None = None
        self.address = ADDRESS
        self.forgotten: list[str] = []
        # What launchers that have gone said last, by Pod.
        self.left: dict[str, pb.DomainStatus] = {}
        self.desk = CrossingDesk(lambda _: None, lambda: None, self.clock.monotonic)
        self.steps = TargetSteps(
            self.server,  # type: ignore[arg-type]
            self.cache,  # type: ignore[arg-type]
            self.own,  # type: ignore[arg-type]
            self.launcher,  # type: ignore[arg-type]
            self.channels,
            PodOfGuest(self.prepare, lambda uid: self.left.get(uid), self.forgotten.append),
            self.events,  # type: ignore[arg-type]
            lambda: self.address,
            THERE,
            self.clock,
            lambda: "this node has no address in 10.5.0.0/24",
            CrossingTarget(self.desk, THERE, self.clock),
            lambda: ADDRESS,
        )

    def prepare(self, _key: object, _vmi: object, uid: str) -> None:
        assert uid == UID
        self.prepared += 1
        if self.failing is not None:
            raise self.failing
        self.launcher.status = coming(pb.INCOMING_READY)

    def look(self) -> Again | None:
        vmi = self.cache.get()
        assert vmi is not None
        return self.steps.reconcile(KEY, vmi)

    @property
    def expected(self) -> dict[str, ExpectedGuest]:
        return self.channels._expected

    @property
    def state(self) -> MigrationState:
        state = self.server.vmi.status.migration_state
        assert state is not None
        return state


def target(status: pb.DomainStatus | None, paused: bool = False, **state: Any) -> Target:
    by_user = [{"type": "Paused", "status": "True", "reason": "PausedByUser"}] if paused else []
    return Target(moving_vmi(status={"conditions": by_user}, **state), status)


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_steps, "runs_here", lambda *_: False)


@pytest.mark.parametrize("paused", [False, True])
def test_a_guest_comes_step_by_step(paused: bool) -> None:
    at = target(coming(pb.INCOMING_EMPTY), paused)
    at.look()
    assert (at.prepared, at.launcher.pods, at.expected) == (1, ["pod-b"], {})
    at.look()
    assert at.expected == {UID: ExpectedGuest("default", "web", HERE, "pod-b")}
    assert at.state.target_node_address == ADDRESS
    at.launcher.status = coming(pb.INCOMING_COMPLETE)
    at.look()
    assert at.state.target_node_domain_detected
    at.look()
    assert at.launcher.methods == []
    at.cache.observe(at.server.change(sourceNodeDomainGoneTimestamp="2026-05-01T00:00:05Z"))
    at.launcher.answers["ReleaseIncoming"] = lambda: coming(pb.INCOMING_OWNED)
    at.look()
    assert at.launcher.orders == [
        ("ReleaseIncoming", pb.ReleaseIncomingRequest(migration_uid=UID, paused=paused)),
    ]
    at.look()
    assert (at.state.completed, at.server.vmi.status.node_name) == (True, THERE)
    # From here on the sync loop has it: connection and network stay.
    assert at.own.get() == at.server.vmi
    assert (at.expected, at.launcher.dropped, at.forgotten) == ({}, 0, [])
    assert at.events.said[-1] == ("Migrated", "The VirtualMachineInstance migrated to node node-b.")


def test_a_new_handler_lets_in_whom_the_last_one_expected() -> None:
    at = target(coming(pb.INCOMING_ARRIVING), **BEGUN)
    at.look()
    assert list(at.expected) == [UID]
    assert at.server.writes == []


def test_a_lost_answer_of_a_release_is_asked_for_again() -> None:
    at = target(coming(pb.INCOMING_COMPLETE), **LEFT)
    at.launcher.answers["ReleaseIncoming"] = refusal("late", grpc.StatusCode.DEADLINE_EXCEEDED)
    for _ in range(2):
        assert at.look() == Again(1.0)
    assert at.launcher.methods == ["ReleaseIncoming"] * 2


def test_a_stale_reader_does_not_take_a_guest_over() -> None:
    at = target(coming(pb.INCOMING_OWNED), **LEFT)
    at.server.change(abortRequested=True)
    with pytest.raises(Conflict):
        at.look()
    assert at.own.get() is None
    at.cache.observe(at.server.vmi)
    at.look()
    assert at.state.completed


def test_a_guest_that_stays_is_ended_here_and_forgotten() -> None:
    at = target(coming(pb.INCOMING_COMPLETE), **BEGUN)
    at.look()
    at.cache.observe(at.server.change(failed=True, completed=True, failureReason="too slow"))
    at.look()
    assert (at.launcher.methods, at.expected) == (["DiscardIncoming"], {})
    assert ("Migrated", "No guest comes to node node-b: too slow") in at.events.said
    at.launcher.status, at.launcher.down_seconds = None, 31.0
    assert at.look() is None
    assert (at.launcher.dropped, at.forgotten) == (1, ["u-1"])


def test_a_guest_that_cannot_be_prepared_for_is_not_let_come() -> None:
    at = target(coming(pb.INCOMING_EMPTY))
    at.failing = refusal("spec.domain: no", grpc.StatusCode.INVALID_ARGUMENT)
    at.look()
    at.look()
    assert at.launcher.methods == ["DiscardIncoming"]
    assert ("Migrated", "No guest comes to node node-b: spec.domain: no") in at.events.said
    assert at.state.target_node_address == ""


def test_what_may_yet_be_prepared_is_tried_for_a_while() -> None:
    at = target(coming(pb.INCOMING_EMPTY))
    at.failing = PodNotReady("the image is not there yet")
    for _ in range(3):
        assert at.look() == Again(1.0)
    assert at.events.said == [("SyncFailed", "the image is not there yet")]
    at.clock.seconds += PREPARE_SECONDS
    at.look()
    assert (at.prepared, at.launcher.methods) == (3, ["DiscardIncoming"])


def test_a_node_that_guests_cannot_come_to_says_why_and_waits_no_longer_than_for_what_is_prepared() -> None:
    at = target(coming(pb.INCOMING_READY))
    at.address = ""
    at.look()
    assert at.launcher.methods == []
    at.clock.seconds += PREPARE_SECONDS
    at.look()
    assert at.launcher.methods == ["DiscardIncoming"]
    text = "No guest comes to node node-b: this node has no address in 10.5.0.0/24"
    assert ("Migrated", text) in at.events.said


def test_what_waits_for_a_source_that_is_off_is_asked_anew_before_it_is_ended() -> None:
    at = target(coming(pb.INCOMING_READY), **LEFT)
    at.launcher.answers["GetDomain"] = lambda: coming(pb.INCOMING_COMPLETE)
    at.look()
    assert at.launcher.methods == ["GetDomain"]
    at.look()
    assert at.launcher.methods == ["GetDomain", "ReleaseIncoming"]


def test_a_guest_that_never_came_from_a_source_that_is_off_is_lost() -> None:
    at = target(coming(pb.INCOMING_READY), **LEFT)
    at.launcher.answers["DiscardIncoming"] = lambda: coming(pb.INCOMING_FAILED, "the migration was given up")
    at.look()
    assert at.launcher.methods == ["GetDomain", "DiscardIncoming"]
    assert at.launcher.orders[1][1] == pb.DiscardIncomingRequest(migration_uid=UID, if_nothing_came=True)
    at.look()
    assert (at.server.vmi.status.phase, at.state.failed) == ("Failed", True)
    assert at.server.vmi.status.reason == "the guest was lost on its way: the migration was given up"


def test_disks_and_state_change_their_claims_in_one_write() -> None:
    moved = {"sourcePersistentStatePVCName": "state", "targetPersistentStatePVCName": "new-state"}
    at = Target(copying_vmi(**LEFT, **moved), coming(pb.INCOMING_COMPLETE))
    at.look()
    assert len(at.server.writes) == 1
    (volume,) = at.server.vmi.spec.volumes
    assert volume.persistent_volume_claim is not None
    assert (volume.persistent_volume_claim.claim_name, at.state.target_taken_timestamp is None) == ("new", False)


@pytest.mark.parametrize("make", [copying_vmi, moving_vmi], ids=["with disks", "the state alone"])
def test_why_a_guest_that_has_come_waits_is_told_once(make: Any) -> None:
    moved = {"sourcePersistentStatePVCName": "state", "targetPersistentStatePVCName": "new-state"}
    at = Target(make(**LEFT, **moved), coming(pb.INCOMING_COMPLETE))
    at.launcher.answers["ReleaseIncoming"] = refusal("the variables of UEFI cannot be kept: no space")
    for _ in range(2):
        assert at.look() == Again(1.0)
    text = "The guest has come and waits: its disks or state cannot be kept yet: the variables of UEFI cannot be kept"
    assert (at.server.writes, at.events.said) == ([], [("SyncFailed", f"{text}: no space")])


def test_a_guest_that_takes_no_state_along_is_not_said_to_have() -> None:
    at = Target(copying_vmi(**LEFT), coming(pb.INCOMING_COMPLETE))
    at.look()
    assert (len(at.server.writes), at.state.target_taken_timestamp) == (1, None)


@pytest.mark.parametrize(("runs", "lost"), [(True, False), (False, True)])
def test_a_silent_launcher_is_gone_only_when_nothing_of_it_runs(
    runs: bool, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(target_steps, "runs_here", lambda *names: asked.append(names) or runs)
    at = target(None, **LEFT)
    at.launcher.down_seconds = 31.0
    at.look()
    assert asked == [("u-1", "pod-b")]
    assert at.state.failed is lost


def test_which_of_two_pods_awaits_the_guest_is_not_guessed() -> None:
    vmi = moving_vmi(status={"activePods": {"pod-b": THERE, "pod-c": THERE}})
    at = Target(vmi, coming(pb.INCOMING_EMPTY))
    assert at.look() == Again(1.0)
    assert (at.prepared, at.launcher.pods) == (0, [])


def test_the_next_migration_begins_with_nothing_of_the_last_one() -> None:
    at = target(coming(pb.INCOMING_READY), **BEGUN)
    at.look()
    at.cache.observe(at.server.change(migrationUid="m-2"))
    at.look()
    assert (at.expected, at.launcher.dropped) == ({}, 1)


def test_a_guest_that_had_come_and_ended_before_that_was_written_down_is_this_nodes() -> None:
    at = target(None, **LEFT)
    at.left["pod-b"] = coming(pb.INCOMING_OWNED)
    at.look()
    assert at.server.vmi.status.node_name == THERE


def test_the_word_of_a_source_that_has_gone_is_waited_for_a_while() -> None:
    at = target(coming(pb.INCOMING_COMPLETE), **BEGUN, sourcePodGoneTimestamp="2026-05-01T00:00:05Z")
    at.look()
    at.clock.seconds += 29.9
    at.look()
    assert not at.state.failed
    at.clock.seconds += 0.1
    at.look()
    assert at.state.failed


def test_a_box_that_is_silent_is_told_of_once_with_the_way_out() -> None:
    at = target(coming(pb.INCOMING_ARRIVING), **BEGUN, sourceState={"node": "far-away"})
    at.look()
    again = at.look()
    assert again is not None
    assert again.after <= 15.0
    for _ in range(4):
        at.clock.seconds += 15.0
        at.look()
    told = [text for reason, text in at.events.said if reason == "MigrationSourceSilent"]
    assert len(told) == 1
    assert "kvedge migrate web --forget" in told[0]
    assert "keeps the claims, which may hold the last copy of the disks" in told[0]
    at.clock.seconds += 60.0
    at.look()
    assert [text for reason, text in at.events.said if reason == "MigrationSourceSilent"] == told


def test_a_box_that_speaks_is_not_told_of() -> None:
    at = target(coming(pb.INCOMING_ARRIVING), **BEGUN, sourceState={"node": "far-away"})
    at.look()
    for _ in range(6):
        at.clock.seconds += 30.0
        at.desk.take_words(KEY, UID, [crossing_server_name(UID)], SourceWords())
        at.look()
    assert not [text for reason, text in at.events.said if reason == "MigrationSourceSilent"]
