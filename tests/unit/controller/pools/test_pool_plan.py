# Tests: kvedge/controller/pools/pool_plan.py, kvedge/controller/pools/pool_actions.py
"""What a pool does next: its number, its VMs' template, its guests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kvedge.controller.pools.pool_actions import (
    CreateVm,
    DeleteVm,
    Detach,
    KeepRevision,
    LetGo,
    PoolPlan,
    Prune,
    Relabel,
    Restart,
    UpdateVm,
)
from kvedge.controller.pools.pool_plan import (
    AGAIN_SECONDS,
    MOST_AT_ONCE,
    PoolView,
    most_unavailable,
    plan_pool,
    selector_in_use,
)
from kvedge.controller.pools.pool_template import update_body, vm_of_pool
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import Condition, ObjectMeta, owner_reference
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.scaling.pools import REVISION_LABEL, VirtualMachinePool
from kvedge.resources.types.vm import StartFailure, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, pool_of, put, small_vmi, vmi_with
from tests.support.values import replace

MOMENT = "2026-01-02T03:00:00Z"


def a_pool(
    replicas: int = 2, generation: int = 1, template: dict[str, Any] | None = None, **spec: Any
) -> VirtualMachinePool:
    document = pool_of(small_vmi(), replicas, **spec)
    document["metadata"] |= {"uid": "pool", "generation": generation}
    for path, value in (template or {}).items():
        put(document["spec"]["virtualMachineTemplate"], path, value)
    return decode(VirtualMachinePool, document)


def a_vm(pool: VirtualMachinePool, number: int, revision: str = "web-1", **metadata: Any) -> VirtualMachine:
    vm = vm_of_pool(pool, number, revision)
    vm.metadata.uid = f"uid-{number}"
    for name, value in metadata.items():
        setattr(vm.metadata, name, value)
    return vm


def a_guest(number: int, revision: str = "web-1", ready: bool = True, **metadata: Any) -> VirtualMachineInstance:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    return vmi_with(status=status, name=f"web-{number}", labels={REVISION_LABEL: revision}, **metadata)


def a_revision(pool: VirtualMachinePool) -> ControllerRevision:
    name = f"web-{pool.metadata.generation}"
    meta = ObjectMeta(name=name, namespace="default", owner_references=[owner_reference(pool)])
    return ControllerRevision(metadata=meta, data=encode(pool.spec), revision=pool.metadata.generation)


def plan(
    pool: VirtualMachinePool,
    vms: list[VirtualMachine],
    guests: list[VirtualMachineInstance] | None = None,
    earlier: list[VirtualMachinePool] | None = None,
    taken: set[str] | None = None,
) -> PoolPlan:
    selector = selector_in_use(pool)
    assert selector is not None
    names = {vm.metadata.name for vm in vms} | (taken or set())
    revisions = {item.metadata.name: item for item in map(a_revision, earlier or [])}
    view = PoolView(pool, vms, {guest.metadata.name: guest for guest in guests or []}, revisions)
    return plan_pool(view, selector, names.__contains__, NOW)


def made(planned: PoolPlan) -> list[str]:
    return [f"web-{action.number}" for action in planned.actions if isinstance(action, CreateVm)]


def ended(planned: PoolPlan) -> list[str]:
    return [action.vm.metadata.name for action in planned.actions if isinstance(action, DeleteVm)]


def test_a_pool_that_selects_by_the_label_of_its_revisions_is_left_alone() -> None:
    absent = {"key": REVISION_LABEL, "operator": "DoesNotExist"}
    assert selector_in_use(a_pool(selector={"matchLabels": {"app": "web"}})) is not None
    assert selector_in_use(a_pool(selector={"matchExpressions": [absent]})) is None


def test_the_lowest_free_numbers_are_taken_and_the_revision_is_kept_first() -> None:
    pool = a_pool(4)
    planned = plan(pool, [a_vm(pool, 1)], taken={"web-2"})
    assert planned.actions[0] == KeepRevision()
    assert made(planned) == ["web-0", "web-3", "web-4"]
    # A revision that is there is not made again.
    assert KeepRevision() not in plan(pool, [], earlier=[pool]).actions


def test_no_more_is_made_at_one_go_than_one_plan_does() -> None:
    assert len(made(plan(a_pool(1000), []))) == MOST_AT_ONCE


def test_a_vm_that_is_being_deleted_counts_and_keeps_its_number() -> None:
    pool = a_pool(2)
    going = a_vm(pool, 0, deletion_timestamp=MOMENT, finalizers=[])
    assert plan(pool, [going, a_vm(pool, 1)], earlier=[pool]).actions == ()
    assert ended(plan(a_pool(1), [going, a_vm(pool, 1)])) == []


@pytest.mark.parametrize(
    ("policy", "first"),
    [
        ({"sortPolicy": "AscendingOrder"}, ["web-0", "web-2"]),
        ({"sortPolicy": "DescendingOrder"}, ["web-10", "web-2"]),
        ({"sortPolicy": "Newest"}, ["web-2", "web-0"]),
        ({"sortPolicy": "Oldest"}, ["web-10", "web-0"]),
        (
            {"sortPolicy": "AscendingOrder", "selectors": {"labelSelector": {"matchLabels": {"size": "big"}}}},
            ["web-10", "web-0"],
        ),
        (
            {
                "sortPolicy": "AscendingOrder",
                "selectors": {"nodeSelectorRequirementMatcher": [{"key": "age", "operator": "Gt", "values": ["5"]}]},
            },
            ["web-2", "web-0"],
        ),
    ],
    ids=["ascending", "descending", "newest", "oldest", "labels", "nodes"],
)
def test_which_vms_go_first(policy: dict[str, Any], first: list[str]) -> None:
    pool = a_pool(1, scaleInStrategy={"proactive": {"selectionPolicy": policy}})
    vms = [
        a_vm(pool, 0, creation_timestamp="2026-01-02T02:00:00Z"),
        a_vm(pool, 2, creation_timestamp="2026-01-02T03:00:00Z"),
        a_vm(pool, 10, creation_timestamp="2026-01-02T01:00:00Z"),
    ]
    assert vms[1].spec.template is not None
    assert vms[2].spec.template is not None
    vms[1].spec.template.spec.node_selector = {"age": "7"}
    vms[2].spec.template.metadata.labels["size"] = "big"
    assert ended(plan(pool, vms)) == first


def test_a_random_choice_is_the_same_when_the_plan_is_made_again() -> None:
    pool = a_pool(5)
    vms = [a_vm(pool, number) for number in range(10)]
    first = ended(plan(pool, vms))
    assert len(first) == 5
    assert ended(plan(pool, list(reversed(vms)))) == first
    others = {tuple(ended(plan(a_pool(5, generation), vms))) for generation in range(2, 8)}
    assert len(others) > 1


@pytest.mark.parametrize(
    ("strategy", "keeps"),
    [
        (None, False),
        ({"proactive": {}}, False),
        ({"proactive": {"statePreservation": "Disabled"}}, False),
        ({"proactive": {"statePreservation": "Offline"}}, True),
        ({"proactive": {"statePreservation": "Online"}}, True),
    ],
)
def test_data_volumes_stay_where_the_pool_says_so(strategy: dict[str, Any] | None, keeps: bool) -> None:
    pool = a_pool(0, **({} if strategy is None else {"scaleInStrategy": strategy}))
    (action,) = plan(pool, [a_vm(pool, 0)]).actions
    assert isinstance(action, DeleteVm)
    assert action.keeps is keeps


def test_a_vm_that_the_user_deleted_is_let_go_whatever_the_strategy_is_and_while_paused() -> None:
    pool = a_pool(2, paused=True, scaleInStrategy={"opportunistic": {"statePreservation": "Offline"}})
    going = a_vm(pool, 0, deletion_timestamp=MOMENT)
    assert plan(pool, [going, a_vm(pool, 1)]).actions == (LetGo(going, keeps=True),)


def test_a_vm_with_other_labels_is_detached_before_anything_else() -> None:
    pool = a_pool(5)
    stray = a_vm(pool, 0, labels={"app": "other"})
    assert plan(pool, [stray]).actions == (Detach(stray),)


@pytest.mark.parametrize("strategy", ["opportunistic", "unmanaged"])
def test_vms_that_the_user_is_to_delete_follow_the_template_meanwhile(strategy: str) -> None:
    pool = a_pool(2, scaleInStrategy={strategy: {}})
    old = [a_vm(pool, number, labels={"app": "web", REVISION_LABEL: "web-0"}) for number in range(3)]
    assert [type(action) for action in plan(pool, old).actions] == [KeepRevision, UpdateVm, UpdateVm, UpdateVm]


def test_a_paused_pool_changes_nothing() -> None:
    assert plan(a_pool(5, paused=True), []).actions == ()


def failing(pool: VirtualMachinePool, status: str, since: int) -> VirtualMachine:
    vm = a_vm(pool, 0)
    vm.status.printable_status = status
    moment = rfc3339(NOW - timedelta(seconds=since))
    vm.status.conditions = [Condition(type="Ready", status="False", last_transition_time=moment)]
    return vm


@pytest.mark.parametrize("status", ["CrashLoopBackOff", "ErrorUnschedulable", "DataVolumeError", "ImagePullBackOff"])
def test_a_vm_that_fails_for_long_is_made_anew_and_not_before(status: str) -> None:
    pool = a_pool(1, autohealing={"minFailingToStartDuration": "1m"})
    (action,) = plan(pool, [failing(pool, status, 61)], earlier=[pool]).actions
    assert isinstance(action, DeleteVm)
    assert action.why == "heal"
    waiting = plan(pool, [failing(pool, status, 20)], earlier=[pool])
    assert (waiting.actions, waiting.again_after) == ((), 40.0)


def test_the_time_that_a_vm_was_stopped_does_not_count() -> None:
    pool = a_pool(1, autohealing={"minFailingToStartDuration": "1m"})
    vm = failing(pool, "ErrorUnschedulable", 86400)
    young = a_guest(0, ready=False, creationTimestamp=rfc3339(NOW - timedelta(seconds=10)))
    waiting = plan(pool, [vm], [young], earlier=[pool])
    assert (waiting.actions, waiting.again_after) == ((), 50.0)
    old = a_guest(0, ready=False, creationTimestamp=rfc3339(NOW - timedelta(seconds=70)))
    assert ended(plan(pool, [vm], [old], earlier=[pool])) == ["web-0"]


def test_a_vm_whose_starts_fail_is_made_anew_and_a_healthy_one_is_not() -> None:
    pool = a_pool(1, autohealing={})
    vm = failing(pool, "Running", 1000)
    assert plan(pool, [vm], earlier=[pool]).actions == ()
    vm.status.start_failure = StartFailure(consecutive_fail_count=2)
    assert plan(pool, [vm], earlier=[pool]).actions == ()
    vm.status.start_failure = StartFailure(consecutive_fail_count=3)
    assert ended(plan(pool, [vm], earlier=[pool])) == ["web-0"]
    assert plan(a_pool(1), [vm], earlier=[pool]).actions == ()


CHANGE = {"spec.template.spec.hostname": "changed"}


def test_a_change_reaches_vms_first() -> None:
    old, new = a_pool(2), a_pool(2, 2, CHANGE)
    planned = plan(new, [a_vm(old, 0), a_vm(old, 1)], [a_guest(0), a_guest(1)], [old])
    assert planned.actions[0] == KeepRevision()
    updates = [action for action in planned.actions if isinstance(action, UpdateVm)]
    assert {update.vm.metadata.name for update in updates} == {"web-0", "web-1"}
    assert update_body(new, updates[0].vm, updates[0].before, "web-2") == {
        "metadata": {"labels": {REVISION_LABEL: "web-2"}},
        "spec": {"template": {"metadata": {"labels": {REVISION_LABEL: "web-2"}}, "spec": {"hostname": "changed"}}},
    }


def test_a_vm_whose_guests_would_say_another_revision_is_changed_before_guests_restart_for_ever() -> None:
    pool = a_pool(1)
    vm = a_vm(pool, 0)
    assert vm.spec.template is not None
    vm.spec.template.metadata.labels[REVISION_LABEL] = "of-somebody"
    (update,) = plan(pool, [vm], [a_guest(0, "of-somebody")], [pool]).actions
    assert isinstance(update, UpdateVm)
    body = update_body(pool, vm, update.before, "web-1")
    assert body["spec"]["template"]["metadata"]["labels"] == {REVISION_LABEL: "web-1"}


def test_a_refused_vm_does_not_hold_up_others_and_a_wait_for_new_ones_no_change() -> None:
    pool = a_pool(1)
    vms = [a_vm(pool, number, deletion_timestamp=MOMENT if number == 0 else None) for number in range(3)]
    first = PoolView(pool, vms)
    selector = selector_in_use(pool)
    assert selector is not None
    assert plan_pool(first, selector, bool, NOW).actions == (LetGo(vms[0], keeps=False),)
    (end,) = plan_pool(replace(first, refused={"uid-0"}), selector, bool, NOW).actions
    assert isinstance(end, DeleteVm)
    (other,) = plan_pool(replace(first, refused={"uid-0", end.vm.metadata.uid}), selector, bool, NOW).actions
    assert isinstance(other, DeleteVm)
    assert other.vm is not end.vm
    old, new = a_pool(2), a_pool(2, 2, CHANGE)
    waiting = PoolView(new, [a_vm(old, 0)], may_create=False)
    planned = plan_pool(waiting, selector, bool, NOW)
    assert [type(action) for action in planned.actions] == [KeepRevision, UpdateVm]


def test_another_number_alone_changes_no_vm() -> None:
    old, new = a_pool(1), a_pool(1, 2)
    planned = plan(new, [a_vm(old, 0)], [a_guest(0)], [old])
    assert planned.actions == ()


def test_guests_are_restarted_as_many_as_may_be_missing() -> None:
    old, new = a_pool(4), a_pool(4, 2, CHANGE, maxUnavailable="50%")
    vms = [a_vm(new, number, "web-2") for number in range(4)]
    guests = [a_guest(number) for number in range(4)]
    planned = plan(new, vms, guests, [old, new])
    assert len(planned.actions) == 2
    assert all(isinstance(action, Restart) for action in planned.actions)
    assert planned.again_after == AGAIN_SECONDS
    # One is away already, and one is not ready: that one is restarted all the same.
    guests = [a_guest(0, "web-2", ready=False), a_guest(1, ready=False), a_guest(2), a_guest(3)]
    (action,) = plan(new, vms, guests, [old, new]).actions
    assert isinstance(action, Restart)
    assert action.vmi.metadata.name == "web-1"


def test_guests_are_restarted_in_the_order_of_the_policy() -> None:
    policy = {"proactive": {"selectionPolicy": {"sortPolicy": "DescendingOrder"}}}
    old, new = a_pool(3), a_pool(3, 2, CHANGE, maxUnavailable=1, updateStrategy=policy)
    vms = [a_vm(new, number, "web-2") for number in range(3)]
    (action,) = plan(new, vms, [a_guest(number) for number in range(3)], [old, new]).actions
    assert isinstance(action, Restart)
    assert action.vmi.metadata.name == "web-2"


def test_a_change_is_for_the_vms_that_the_policy_selects_alone() -> None:
    policy = {"proactive": {"selectionPolicy": {"selectors": {"labelSelector": {"matchLabels": {"size": "big"}}}}}}
    old, new = a_pool(2, updateStrategy=policy), a_pool(2, 2, CHANGE, updateStrategy=policy)
    vms = [a_vm(old, 0), a_vm(old, 1)]
    assert vms[1].spec.template is not None
    assert [type(action) for action in plan(new, vms, [a_guest(0), a_guest(1)], [old]).actions] == []
    vms[1].spec.template.metadata.labels["size"] = "big"
    planned = plan(new, vms, [a_guest(0), a_guest(1)], [old]).actions
    assert [action.vm.metadata.name for action in planned if isinstance(action, UpdateVm)] == ["web-1"]


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"metadata.annotations": {"note": "x"}}, Relabel),
        (CHANGE, Restart),
        ({"spec.dataVolumeTemplates": [{"metadata": {"name": "d"}, "spec": {}}]}, DeleteVm),
    ],
    ids=["nothing that a guest sees", "the guest's template", "its DataVolumes"],
)
def test_what_a_change_means_for_a_guest(change: dict[str, Any], step: type) -> None:
    old, new = a_pool(1), a_pool(1, 2, change)
    (action,) = plan(new, [a_vm(new, 0, "web-2")], [a_guest(0)], [old, new]).actions
    assert isinstance(action, step)
    if isinstance(action, DeleteVm):
        assert (action.why, action.keeps) == ("update", False)


def test_a_guest_of_an_unknown_revision_is_restarted() -> None:
    pool = a_pool(1, 2)
    (action,) = plan(pool, [a_vm(pool, 0, "web-2")], [a_guest(0, "web-1")], [pool]).actions
    assert isinstance(action, Restart)


@pytest.mark.parametrize("strategy", ["opportunistic", "unmanaged"])
def test_guests_are_left_alone_where_the_strategy_says_so(strategy: str) -> None:
    old, new = a_pool(1), a_pool(1, 2, CHANGE, updateStrategy={strategy: {}})
    assert plan(new, [a_vm(new, 0, "web-2")], [a_guest(0)], [old, new]).actions == ()
    planned = plan(new, [a_vm(old, 0)], [a_guest(0)], [old])
    assert bool(planned.actions) is (strategy == "opportunistic")


def test_revisions_that_nobody_has_go_when_all_is_done() -> None:
    pools = [a_pool(1, 1), a_pool(1, 2, CHANGE), a_pool(1, 3, {"spec.template.spec.hostname": "third"})]
    planned = plan(pools[2], [a_vm(pools[2], 0, "web-3")], [a_guest(0, "web-3")], pools)
    assert [action.revision.metadata.name for action in planned.actions if isinstance(action, Prune)] == [
        "web-1",
        "web-2",
    ]


@pytest.mark.parametrize(
    ("limit", "replicas", "most"),
    [(None, 4, 4), ("50%", 5, 2), ("1%", 5, 1), (2, 5, 2), ("100%", 0, 1)],
)
def test_how_many_may_be_missing(limit: int | str | None, replicas: int, most: int) -> None:
    pool = a_pool(replicas)
    pool.spec.max_unavailable = limit
    assert most_unavailable(pool) == most
