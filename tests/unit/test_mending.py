# Tests: tests/support/cluster/mending.py
"""What of a node is taken for the work of a test that failed."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any, cast

import pytest

from kvedge.resources.codec import JsonObject
from tests.support.cluster.mending import ClusterCare, given_taints, is_stopped, is_well
from tests.support.waiting import wait_until


def test_taints_that_kubernetes_takes_away_itself_are_left_alone() -> None:
    keys = [
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
        ("node.kubernetes.io/out-of-service", "NoExecute"),
        ("kubevirt.io/drain", "NoSchedule"),
    ]
    assert given_taints([{"key": key, "effect": effect} for key, effect in keys]) == [
        "node.kubernetes.io/out-of-service:NoExecute",
        "kubevirt.io/drain:NoSchedule",
    ]


def node(ready: str = "True", label: str = "true", devices: str = "1k") -> JsonObject:
    return {
        "metadata": {"name": "n1", "labels": {"kubevirt.io/schedulable": label}},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {"devices.kubevirt.io/tun": devices},
        },
    }


def test_a_node_is_well_when_vms_may_come_to_it() -> None:
    assert is_well(node())


@pytest.mark.parametrize(
    "found",
    [node(ready="Unknown"), node(label="false"), node(devices="0"), {"metadata": {}, "status": {}}],
    ids=["silent kubelet", "silent handler", "no devices", "just registered"],
)
def test_a_node_that_can_take_no_vm_is_not_well(found: JsonObject) -> None:
    assert not is_well(found)


def test_a_process_that_stands_still_is_told_from_one_that_sleeps_or_is_gone() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not is_stopped(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(process.pid), "it stands still", 5)
        process.kill()
    assert not is_stopped(process.pid)


class PlayedCare(ClusterCare):
    """Of a cluster on which faults are found."""

    def __init__(self) -> None:
        super().__init__(cast(Any, None))
        self.faults: list[str] = []

    def mend(self) -> list[str]:
        found, self.faults, self.is_suspect = self.faults, [], False
        return found

    def clear(self) -> list[str]:
        return ["VM web was left over"]


def test_what_a_test_that_passed_has_left_fails_the_next_one_however_often_it_is_tried() -> None:
    care = PlayedCare()
    care.faults = ["kvedge of n2 did not run", "n1 was cordoned"]
    left = "left by a test that passed: test_first: kvedge of n2 did not run, n1 was cordoned"
    assert care.prepare("test_second", "test_first", is_next_module=True) == (
        ["kvedge of n2 did not run", "n1 was cordoned"],
        left,
    )
    # It has failed for that, and is tried again, when all is put right.
    care.is_suspect = True
    assert care.prepare("test_second", "test_second", is_next_module=False) == ([], left)
    assert care.prepare("test_third", "test_second", is_next_module=False) == ([], "")


def test_what_a_test_that_failed_has_left_fails_no_other() -> None:
    care = PlayedCare()
    care.faults, care.is_suspect = ["n2 was off"], True
    assert care.prepare("test_second", "test_first", is_next_module=False) == (["n2 was off"], "")
    care.is_suspect = True
    assert care.prepare("test_third", "test_second", is_next_module=True) == (["VM web was left over"], "")
    assert care.prepare("test_fourth", "test_third", is_next_module=True) == ([], "")
