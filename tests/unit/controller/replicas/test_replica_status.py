"""The status of a ReplicaSet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kvedge.controller.replicas.replica_plan import selector_in_use
from kvedge.controller.replicas.replica_status import next_status, told_change
from kvedge.controller.scaling_status import gather_seconds, status_body
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.scaling.replica_sets import (
    VirtualMachineInstanceReplicaSet,
    VirtualMachineInstanceReplicaSetStatus,
)
from tests.support.builders import NOW, patched
from tests.unit.controller.replicas.test_replica_plan import READY, a_set, owned


def status(
    replica_set: VirtualMachineInstanceReplicaSet, *active: Any, failure: tuple[str, str] | None = None, later: int = 0
) -> VirtualMachineInstanceReplicaSetStatus:
    selector = selector_in_use(replica_set)
    assert selector is not None
    return next_status(replica_set, active, selector, failure, NOW + timedelta(seconds=later))


def written(
    replica_set: VirtualMachineInstanceReplicaSet, made: VirtualMachineInstanceReplicaSetStatus
) -> VirtualMachineInstanceReplicaSet:
    """The set with that status, as it is once the patch was taken."""
    document = patched(encode(replica_set), status_body(replica_set, made))
    return decode(VirtualMachineInstanceReplicaSet, document)


def test_numbers_are_written_also_when_they_are_zero() -> None:
    body = status_body(a_set(), status(a_set()))
    assert body == {"status": {"replicas": 0, "readyReplicas": 0, "labelSelector": "app=web"}}


def test_ready_ones_are_counted() -> None:
    made = status(a_set(), owned("web1", READY), owned("web2"))
    assert (made.replicas, made.ready_replicas) == (2, 1)


def test_nothing_is_written_when_nothing_has_changed() -> None:
    replica_set = written(a_set(), status(a_set(), owned("web1")))
    assert status_body(replica_set, status(replica_set, owned("web1"), later=60)) == {}


def test_a_pause_is_a_condition_and_an_event_and_so_is_its_end() -> None:
    replica_set = a_set(paused=True)
    made = status(replica_set)
    assert told_change(replica_set, made) == ("SuccessfulPaused", "Paused")
    replica_set = written(replica_set, made)
    assert told_change(replica_set, status(replica_set)) is None
    replica_set.spec.paused = False
    made = status(replica_set)
    assert told_change(replica_set, made) == ("SuccessfulResumed", "Resumed")
    assert written(replica_set, made).status.conditions == []


def test_a_failure_keeps_the_words_it_began_with() -> None:
    replica_set = written(a_set(), status(a_set(), failure=("FailedCreate", "no room")))
    (failure,) = replica_set.status.conditions
    assert (failure.type, failure.reason, failure.message) == ("ReplicaFailure", "FailedCreate", "no room")
    assert status_body(replica_set, status(replica_set, failure=("FailedCreate", "still none"), later=60)) == {}
    (other,) = status(replica_set, failure=("FailedDelete", "kept")).conditions
    assert (other.reason, other.message) == ("FailedDelete", "kept")
    assert written(replica_set, status(replica_set)).status.conditions == []


def test_a_long_message_is_cut() -> None:
    (failure,) = status(a_set(), failure=("FailedCreate", "x" * 5000)).conditions
    assert len(failure.message) == 1024


def test_changes_of_many_replicas_are_gathered_for_longer() -> None:
    assert [gather_seconds(count) for count in (None, 1, 100, 500, 100_000)] == [0.2, 0.2, 0.2, 1.0, 2.0]
