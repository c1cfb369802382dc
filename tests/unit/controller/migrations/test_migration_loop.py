# Tests: kvedge/controller/migrations/migration_steps.py, kvedge/controller/migrations/target_creation.py
"""The loop of migrations against a small server: limits over all of them, old caches, refusals, and what is left."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.kube.errors import Conflict, Forbidden, KubeError, Unavailable
from kvedge.kube.work_queue import Key
from kvedge.resources.configuration.configuration import Migrations
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.names import MIGRATION_TARGET_NODE
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import (
    MIGRATION_JOB_UID,
    MigrationPolicy,
    MigrationPolicySpec,
    MigrationState,
    PolicySelectors,
    VirtualMachineInstanceMigration,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, a_pod, a_vmi
from tests.support.migrating import a_migration
from tests.unit.controller.migrations.small_server import SmallServer, a_namespaced_node

CAN = Condition(type="LiveMigratable", status="True")


def add_guest(server: SmallServer, name: str = "web", node: str = "node-1") -> VirtualMachineInstance:
    """A VMI that runs, its launcher's Pod, and a migration `move-<name>` of it."""
    vmi = a_vmi("Running")
    vmi.metadata.name, vmi.metadata.uid = name, f"uid-of-vmi-{name}"
    vmi.status.node_name, vmi.status.conditions = node, [CAN]
    pod = copy.deepcopy(a_pod(vmi, "Running", node))
    pod.metadata.uid = f"uid-of-pod-of-{name}"
    vmi.status.active_pods = {pod.metadata.uid: node}
    migration = a_migration("", name=f"move-{name}")
    migration.spec.vmi_name = name
    for item in (vmi, pod, migration):
        server.put(item)
    server.tell()
    return vmi


def targets(server: SmallServer) -> list[Pod]:
    return [pod for pod in server.pods() if MIGRATION_JOB_UID in pod.metadata.labels]


def phase(server: SmallServer, name: str) -> str:
    found = server.find(VirtualMachineInstanceMigration, name)
    return "gone" if found is None else found.status.phase


def start(server: SmallServer, pod: Pod, node: str = "node-2") -> None:
    """A kubelet runs the Pod."""
    running = a_pod(a_vmi("Running"), "Running", node)
    pod.spec.node_name, pod.status = node, running.status
    server.put(pod)
    server.tell()


def hand_over(server: SmallServer) -> None:
    """Bring the migration of `web` to its handlers."""
    add_guest(server)
    server.turn("move-web")
    start(server, targets(server)[0])
    server.turn("move-web")
    server.tell()
    assert server.find(VirtualMachineInstance, "web").status.migration_state.is_open


def end_migration(server: SmallServer, vmi_name: str, **outcome: Any) -> None:
    """The handlers record what became of it."""
    vmi = server.find(VirtualMachineInstance, vmi_name)
    for key, value in {"completed": True, "end_timestamp": "2026-05-01T00:00:00Z", **outcome}.items():
        setattr(vmi.status.migration_state, key, value)
    if not vmi.status.migration_state.failed:
        vmi.status.node_name = vmi.status.migration_state.target_node
    server.put(vmi)
    server.tell()


def test_a_new_migration_comes_to_its_pod_in_one_pass_and_to_the_handlers_when_that_runs():
    server = SmallServer()
    vmi = add_guest(server)
    server.turn("move-web")
    assert phase(server, "move-web") == "Scheduling"
    (target,) = targets(server)
    assert target.metadata.name == launcher_pod_name(vmi, "uid-of-move-web")
    start(server, target)
    server.turn("move-web")
    assert phase(server, "move-web") == "PreparingTarget"
    vmi = server.find(VirtualMachineInstance, "web")
    assert vmi.metadata.labels[MIGRATION_TARGET_NODE] == "node-2"
    assert vmi.status.active_pods == {"uid-of-pod-of-web": "node-1", target.metadata.uid: "node-2"}
    assert [reason for _, reason, _ in server.told()] == ["SuccessfulCreate", "SuccessfulHandOver"]


def test_the_hand_over_replaces_all_that_the_vmi_said_of_an_earlier_migration():
    server = SmallServer()
    vmi = add_guest(server)
    launcher = server.pods()[0].metadata.name
    vmi.status.migration_state = MigrationState(
        migration_uid="earlier",
        target_node="node-1",
        target_pod=launcher,
        completed=True,
        mode="PreCopy",
        abort_requested=True,
    )
    policy = MigrationPolicy(
        metadata=ObjectMeta(name="slow", uid="p"),
        spec=MigrationPolicySpec(
            selectors=PolicySelectors(virtual_machine_instance_selector={}), bandwidth_per_migration="1Mi"
        ),
    )
    server.put(policy)
    server.put(vmi)
    server.tell()
    server.turn("move-web")
    start(server, targets(server)[0])
    server.turn("move-web")
    state = server.find(VirtualMachineInstance, "web").status.migration_state
    assert (state.migration_uid, state.source_pod) == ("uid-of-move-web", launcher)
    assert (state.completed, state.mode, state.abort_requested) == (False, "", False)
    assert (state.migration_policy_name, state.migration_configuration.bandwidth_per_migration) == ("slow", "1Mi")


def test_the_limits_hold_over_all_migrations_and_the_next_begins_when_one_has_ended():
    server = SmallServer(Migrations(parallel_per_node=2, parallel_per_cluster=3))
    for name, node in (("a", "node-1"), ("b", "node-1"), ("c", "node-1"), ("d", "node-3"), ("e", "node-4")):
        add_guest(server, name, node)
    for _ in range(2):
        waits = [server.turn(f"move-{name}") for name in "abcde"]
    assert [phase(server, f"move-{name}") for name in "abcde"] == [
        "Scheduling",
        "Scheduling",
        "Pending",
        "Scheduling",
        "Pending",
    ]
    assert [wait is not None and wait.after for wait in (waits[2], waits[4])] == [5.0, 5.0]
    start(server, next(pod for pod in targets(server) if pod.metadata.labels[MIGRATION_JOB_UID] == "uid-of-move-a"))
    server.turn("move-a")
    end_migration(server, "a", failed=True)
    server.turn("move-a")
    assert phase(server, "move-a") == "Failed"
    server.turn("move-c")
    assert phase(server, "move-c") == "Scheduling"
    server.turn("move-e")
    assert phase(server, "move-e") == "Pending"


def test_nothing_is_made_for_a_migration_that_was_cancelled_unseen():
    server = SmallServer()
    add_guest(server)
    live = server.find(VirtualMachineInstanceMigration, "move-web")
    live.status.phase = "Pending"
    server.put(live)
    server.tell()
    live = copy.deepcopy(live)
    live.metadata.deletion_timestamp = "2026-05-01T00:00:00Z"
    server.put(live)
    server.turn("move-web")
    assert targets(server) == []


def test_a_pod_that_is_handed_over_unseen_is_not_ended_by_a_cancel():
    server = SmallServer()
    add_guest(server)
    server.turn("move-web")
    (target,) = targets(server)
    vmi = copy.deepcopy(server.find(VirtualMachineInstance, "web"))
    server.tell()
    vmi.status.migration_state = MigrationState(migration_uid="uid-of-move-web", target_pod=target.metadata.name)
    server.put(vmi)
    cancelled = copy.deepcopy(server.find(VirtualMachineInstanceMigration, "move-web"))
    cancelled.metadata.deletion_timestamp = "2026-05-01T00:00:00Z"
    server.caches[VirtualMachineInstanceMigration].observe(server.put(cancelled))
    server.turn("move-web")
    assert targets(server) == [target]
    assert phase(server, "move-web") == "Scheduling"


def test_a_migration_that_is_handed_over_unseen_has_not_failed():
    server = SmallServer()
    add_guest(server)
    server.turn("move-web")
    start(server, targets(server)[0])
    server.turn("move-web")
    # The next controller: its cache of migrations is ahead of that of VMIs.
    fresh = SmallServer()
    fresh.live, fresh.version = dict(server.live), server.version
    vmi = fresh.find(VirtualMachineInstance, "web")
    old = copy.deepcopy(vmi)
    old.status.migration_state, old.metadata.resource_version = None, "1"
    fresh.live[VirtualMachineInstance, "web"] = old
    fresh.tell()
    fresh.live[VirtualMachineInstance, "web"] = vmi
    fresh.turn("move-web")
    fresh.turn("move-web")
    assert phase(fresh, "move-web") == "PreparingTarget"
    assert len(targets(fresh)) == 1


def test_the_reason_of_a_failure_outlasts_a_refused_write():
    server = SmallServer()
    add_guest(server)
    server.turn("move-web")
    live = copy.deepcopy(server.find(VirtualMachineInstanceMigration, "move-web"))
    live.metadata.deletion_timestamp = "2026-05-01T00:00:00Z"
    server.caches[VirtualMachineInstanceMigration].observe(server.put(live))
    server.put(copy.deepcopy(live))
    with pytest.raises(Conflict):
        server.turn("move-web")
    assert len(targets(server)) == 1
    server.tell()
    server.turn("move-web")
    assert ("Warning", "FailedMigration", "Migration failed due to being canceled") in server.told()
    assert targets(server) == []


def test_a_refusal_by_a_quota_is_a_condition_until_there_is_room():
    server = SmallServer()
    add_guest(server)
    server.refuses = Forbidden(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: small')
    wait = server.turn("move-web")
    assert wait is not None
    assert wait.after >= 1.0
    migration = server.find(VirtualMachineInstanceMigration, "move-web")
    found = condition(migration.status.conditions, "migrationRejectedByResourceQuota")
    assert found is not None
    assert "exceeded quota: small" in found.message
    assert server.told()[0][:2] == ("Warning", "FailedCreate")
    server.refuses = None
    server.clock.seconds += 120
    server.turn("move-web")
    assert phase(server, "move-web") == "Scheduling"
    assert server.find(VirtualMachineInstanceMigration, "move-web").status.conditions == []


def test_a_server_that_does_not_answer_is_asked_again_without_a_word():
    server = SmallServer()
    add_guest(server)
    server.refuses = Unavailable(503, "ServiceUnavailable", "later")
    with pytest.raises(Unavailable):
        server.turn("move-web")
    assert server.told() == []


def test_a_pod_of_somebody_elses_under_the_name_is_told():
    server = SmallServer()
    vmi = add_guest(server)
    stranger = copy.deepcopy(server.pods()[0])
    stranger.metadata = ObjectMeta(name=launcher_pod_name(vmi, "uid-of-move-web"), namespace="default", uid="stranger")
    server.put(stranger)
    server.turn("move-web")
    assert phase(server, "move-web") == "Pending"
    assert server.told()[0][:2] == ("Warning", "FailedCreate")


def test_a_pod_whose_creation_was_not_answered_is_found():
    server = SmallServer()
    add_guest(server)
    server.turn("move-web")
    (target,) = targets(server)
    # The next controller, whose cache has the Pod not yet.
    fresh = SmallServer()
    fresh.live = {key: value for key, value in server.live.items() if value is not target}
    fresh.version = server.version
    pending = fresh.find(VirtualMachineInstanceMigration, "move-web")
    pending.status.phase = "Pending"
    fresh.put(pending)
    fresh.tell()
    fresh.live[Pod, target.metadata.name] = target
    fresh.turn("move-web")
    assert len(targets(fresh)) == 1
    assert phase(fresh, "move-web") == "Scheduling"


def test_nodes_whose_handlers_have_another_version_are_avoided():
    server = SmallServer(versions={"node-1": CONFIG.version, "node-2": "v0.1", "node-3": ""})
    server.put(a_namespaced_node("node-2", "host-2"))
    server.put(a_namespaced_node("node-3", "host-3"))
    add_guest(server)
    server.turn("move-web")
    (target,) = targets(server)
    assert target.spec.affinity is not None
    (term,) = target.spec.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["host-2", "host-3"]}
    ]


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_the_pod_of_a_migration_that_is_gone_is_ended_unless_the_guest_comes_to_it(is_handed_over):
    server = SmallServer()
    add_guest(server)
    server.turn("move-web")
    (target,) = targets(server)
    if is_handed_over:
        start(server, target)
        server.turn("move-web")
    server.remove(server.find(VirtualMachineInstanceMigration, "move-web"))
    server.tell()
    server.turn("move-web")
    assert bool(targets(server)) is is_handed_over


def test_a_migration_that_was_removed_with_its_finalizer_is_canceled():
    server = SmallServer()
    hand_over(server)
    server.waiting()
    server.remove(server.find(VirtualMachineInstanceMigration, "move-web"))
    server.tell()
    # The keys that come of it are those of the migration and of its VMI.
    assert server.waiting() == {Key("default", "web"), Key("default", "move-web")}
    server.turn("web")
    assert server.find(VirtualMachineInstance, "web").status.migration_state.abort_requested
    kind, reason, text = server.told()[-1]
    assert (kind, reason) == ("Warning", "FailedMigration")
    assert text == "migration uid uid-of-move-web was removed while it was under way: it is canceled"
    told = len(server.told())
    server.turn("web")
    assert len(server.told()) == told


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "not known yet"])
def test_a_guest_whose_migration_is_there_is_not_asked_to_stay(is_known):
    server = SmallServer()
    hand_over(server)
    if not is_known:
        # The next controller, whose cache has the migration not yet.
        fresh = SmallServer()
        fresh.live = dict(server.live)
        hidden = fresh.live.pop((VirtualMachineInstanceMigration, "move-web"))
        fresh.tell()
        fresh.live[VirtualMachineInstanceMigration, "move-web"] = hidden
        server = fresh
    server.turn("web")
    assert not server.find(VirtualMachineInstance, "web").status.migration_state.abort_requested


@pytest.mark.parametrize("outcome", [{"failed": True}, {}], ids=["failed", "moved"])
def test_a_migration_that_has_ended_is_not_missed(outcome):
    server = SmallServer()
    hand_over(server)
    end_migration(server, "web", **outcome)
    server.remove(server.find(VirtualMachineInstanceMigration, "move-web"))
    server.tell()
    server.turn("web")
    assert not server.find(VirtualMachineInstance, "web").status.migration_state.abort_requested


def test_the_pod_of_a_migration_that_the_cache_does_not_know_yet_is_left_alone():
    server = SmallServer()
    add_guest(server)
    server.turn("move-web")
    fresh = SmallServer()
    fresh.live = dict(server.live)
    hidden = fresh.live.pop((VirtualMachineInstanceMigration, "move-web"))
    fresh.tell()
    fresh.live[VirtualMachineInstanceMigration, "move-web"] = hidden
    fresh.turn("move-web")
    assert len(targets(fresh)) == 1


def test_a_migration_whose_vmi_is_gone_goes():
    server = SmallServer()
    vmi = add_guest(server)
    server.turn("move-web")
    server.remove(vmi)
    server.tell()
    for _ in range(3):
        server.turn("move-web")
        server.tell()
    assert phase(server, "move-web") == "gone"
    assert ("Warning", "FailedMigration", "Migration failed because vmi does not exist.") in server.told()


STEPS = ["turn a", "turn b", "turn c", "hear", "hear", "run", "fail a", "fail b", "win c", "cancel a", "cancel b"]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(STEPS), max_size=40))
def test_whatever_is_seen_late_the_limits_hold_and_a_pod_that_is_handed_over_stays(steps: list[str]) -> None:
    server = SmallServer(Migrations(parallel_per_node=2, parallel_per_cluster=2))
    for name in "abc":
        add_guest(server, name)
    handed: set[str] = set()
    for step in steps:
        verb, _, name = step.partition(" ")
        try:
            happen(server, verb, name)
        except Conflict:
            server.tell()
        handed |= check(server, handed)


def happen(server: SmallServer, verb: str, name: str) -> None:
    if verb == "turn":
        server.turn(f"move-{name}")
    elif verb == "hear":
        server.tell()
    elif verb == "run":
        for pod in targets(server):
            if not pod.spec.node_name:
                pod.spec.node_name, pod.status = "node-2", a_pod(a_vmi("Running"), "Running", "node-2").status
                server.put(pod)
    elif verb == "cancel":
        found = copy.deepcopy(server.find(VirtualMachineInstanceMigration, f"move-{name}"))
        if found is not None and found.metadata.finalizers:
            found.metadata.deletion_timestamp = "2026-05-01T00:00:00Z"
            server.put(found)
    else:
        vmi = copy.deepcopy(server.find(VirtualMachineInstance, name))
        state = vmi.status.migration_state
        if state is not None and state.is_open:
            state.completed, state.failed = True, verb == "fail"
            vmi.status.node_name = vmi.status.node_name if state.failed else state.target_node
            server.put(vmi)


def check(server: SmallServer, handed: set[str]) -> set[str]:
    """What must hold; the Pods that a guest may come to now."""
    pods = {pod.metadata.name for pod in targets(server)}
    vmis = [item for (kind, _), item in server.live.items() if kind is VirtualMachineInstance]
    states = [vmi.status.migration_state for vmi in vmis if vmi.status.migration_state is not None]
    assert handed <= pods, "a Pod that was handed over was ended"
    over = {state.target_pod for state in states if not state.is_open}
    assert len(pods - over) <= 2, "more move at a time than may"
    return {state.target_pod for state in states}


def test_the_errors_of_a_server_are_not_swallowed():
    server = SmallServer()
    add_guest(server)
    server.refuses = KubeError(500, "InternalError", "broken")
    wait = server.turn("move-web")
    assert wait is not None
    assert server.told()[0] == ("Warning", "FailedCreate", "Error creating pod: broken")
