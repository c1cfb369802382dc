"""How long the Pod that a guest is to come to may take."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kvedge.controller.migrations.target_wait import find_wait, patience_of
from kvedge.resources.meta import Condition
from kvedge.resources.types.core import Pod
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, a_vmi
from tests.support.migrating import TARGET, a_migration, a_target_pod

WHERE = f"default/{TARGET}"
UNSCHEDULABLE = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/2 nodes")


def waiting(age: int, *, unschedulable: bool = False) -> Pod:
    pod = a_target_pod(a_vmi("Running"), "Pending", "" if unschedulable else "node-2")
    pod.metadata.creation_timestamp = rfc3339(NOW - timedelta(seconds=age))
    pod.status.conditions = [UNSCHEDULABLE] if unschedulable else []
    return pod


def test_a_pod_that_no_node_can_take_is_told_of_and_given_up_after_five_minutes():
    wait = find_wait(waiting(10, unschedulable=True), "web", NOW)
    assert wait.seconds == 290.0
    assert wait.warning == "Migration target pod for VMI [default/web] is currently unschedulable."
    assert wait.failure == ""
    given_up = find_wait(waiting(300, unschedulable=True), "web", NOW)
    assert given_up.failure == f"unschedulable pod {WHERE} timeout period exceeded: 0/2 nodes"


@pytest.mark.parametrize(("age", "seconds"), [(10, 290.0), (300, 600.0), (899, 1.0)])
def test_a_pod_that_takes_long_has_fifteen_minutes(age, seconds):
    wait = find_wait(waiting(age), "web", NOW)
    assert (wait.seconds, wait.warning, wait.failure) == (seconds, "", "")


def test_a_pod_that_takes_too_long_is_given_up_with_what_keeps_it():
    assert find_wait(waiting(900), "web", NOW).failure == f"pending pod {WHERE} timeout period exceeded"
    pod = waiting(900)
    assert pod.status.container_statuses[0].state is not None
    waits = pod.status.container_statuses[0].state.waiting
    assert waits is not None
    waits.reason = "CreateContainerError"
    failure = find_wait(pod, "web", NOW).failure
    assert failure == f"pending pod {WHERE} timeout period exceeded: no such image"


@pytest.mark.parametrize(
    ("annotations", "unschedulable", "pending"),
    [
        ({}, 300, 900),
        ({"kubevirt.io/migrationUnschedulablePodTimeoutSeconds": "130"}, 130, 900),
        ({"kubevirt.io/migrationPendingPodTimeoutSeconds": "20"}, 20, 20),
        ({"kubevirt.io/migrationUnschedulablePodTimeoutSeconds": "soon"}, 300, 900),
    ],
    ids=["usual", "of one that no node can take", "of any", "no number"],
)
def test_a_migration_may_name_its_own_times(annotations, unschedulable, pending):
    patience = patience_of(a_migration(annotations=annotations))
    limit = min(unschedulable, pending)
    assert not find_wait(waiting(limit - 1, unschedulable=True), "web", NOW, patience).failure
    assert find_wait(waiting(limit, unschedulable=True), "web", NOW, patience).failure
    assert find_wait(waiting(pending - 1), "web", NOW, patience).seconds == 1.0
    assert find_wait(waiting(pending), "web", NOW, patience).failure
