# Tests: tests/support/cluster/mending.py
"""What of a node is taken for the work of a test that failed."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from kvedge.resources.codec import JsonObject
from tests.support.cluster.mending import given_taints, is_stopped, is_well
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
