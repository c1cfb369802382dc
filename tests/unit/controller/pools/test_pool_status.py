"""The status of a pool."""

from __future__ import annotations

from datetime import timedelta

from kvedge.controller.pools.pool_plan import selector_in_use
from kvedge.controller.pools.pool_status import next_status, told_change
from kvedge.controller.scaling_status import status_body
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import Condition
from kvedge.resources.types.scaling.pools import VirtualMachinePool, VirtualMachinePoolStatus
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import NOW, patched
from tests.unit.controller.pools.test_pool_plan import a_pool, a_vm


def status(
    pool: VirtualMachinePool, *vms: VirtualMachine, failure: tuple[str, str] | None = None, later: int = 0
) -> VirtualMachinePoolStatus:
    selector = selector_in_use(pool)
    assert selector is not None
    return next_status(pool, vms, selector, failure, NOW + timedelta(seconds=later))


def written(pool: VirtualMachinePool, made: VirtualMachinePoolStatus) -> VirtualMachinePool:
    return decode(VirtualMachinePool, patched(encode(pool), status_body(pool, made)))


def test_numbers_are_written_also_when_they_are_zero_and_ready_ones_counted() -> None:
    pool = a_pool()
    assert status_body(pool, status(pool)) == {
        "status": {"replicas": 0, "readyReplicas": 0, "labelSelector": "app=web"}
    }
    ready = a_vm(pool, 0)
    ready.status.conditions = [Condition(type="Ready", status="True")]
    made = status(pool, ready, a_vm(pool, 1))
    assert (made.replicas, made.ready_replicas) == (2, 1)


def test_a_pause_is_a_condition_and_an_event_and_so_is_its_end() -> None:
    pool = a_pool(paused=True)
    made = status(pool)
    assert told_change(pool, made) == ("SuccessfulPaused", "Pool is paused")
    pool = written(pool, made)
    (paused,) = pool.status.conditions
    assert (paused.type, paused.reason, paused.message) == (
        "ReplicaPaused",
        "SuccessfulPaused",
        "Pool controller is paused",
    )
    assert told_change(pool, status(pool)) is None
    pool.spec.paused = False
    assert told_change(pool, status(pool)) == ("SuccessfulResumed", "Pool is unpaused")


def test_a_failure_keeps_the_words_it_began_with() -> None:
    pool = written(a_pool(), status(a_pool(), failure=("FailedScaleOut", "no room")))
    assert status_body(pool, status(pool, failure=("FailedScaleOut", "still none"), later=60)) == {}
    assert written(pool, status(pool)).status.conditions == []
