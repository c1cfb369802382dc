# Tests: tests/support/cluster/mending.py
"""What of a node is taken for the work of a test that failed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.resources.codec import JsonObject
from tests.cluster.conftest import CARE, pytest_runtest_makereport, pytest_runtest_setup
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


class PlayedRun:
    """Tests that follow each other on one cluster, on which faults are found before some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.care = ClusterCare(cast(Any, None))
        self.faults: list[str] = []
        self.config = SimpleNamespace(stash=pytest.Stash())
        monkeypatch.setattr(self.care, "mend", self._mend)
        monkeypatch.setattr(self.care, "clear", list)

    def _mend(self) -> list[str]:
        found, self.faults, self.care.is_suspect = self.faults, [], False
        return found

    def begin(self, name: str) -> list[tuple[str, object]]:
        """What is mended before a test. Raises what fails it."""
        item: Any = SimpleNamespace(
            nodeid=f"test_it.py::{name}", path=Path("test_it.py"), config=self.config, user_properties=[]
        )
        try:
            pytest_runtest_setup(item)
        except pytest.fail.Exception:
            self.end(failed=True)
            raise
        return list(item.user_properties)

    def end(self, *, failed: bool) -> None:
        item: Any = SimpleNamespace(config=self.config)
        report: Any = SimpleNamespace(failed=failed)
        hook = pytest_runtest_makereport(item)
        next(hook)
        with pytest.raises(StopIteration):
            hook.send(report)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedRun:
    """A run whose first test has made the cluster, and has passed."""
    run = PlayedRun(monkeypatch)
    assert run.begin("test_first") == []
    run.config.stash[CARE] = run.care
    run.end(failed=False)
    return run


def test_what_a_test_that_passed_has_left_fails_the_next_one_however_often_it_is_tried(played: PlayedRun) -> None:
    played.faults = ["kvedge of n2 did not run", "n1 was cordoned"]
    left = r"left by a test that passed: test_it.py::test_first: kvedge of n2 did not run, n1 was cordoned"
    for _ in range(2):
        with pytest.raises(pytest.fail.Exception, match=left):
            played.begin("test_second")
    # It is put right by then.
    assert played.begin("test_third") == []


def test_what_a_test_that_failed_has_left_fails_no_other(played: PlayedRun) -> None:
    played.faults = ["n2 was off"]
    played.end(failed=True)
    assert played.begin("test_second") == [("mended", "n2 was off")]
    played.end(failed=False)
    assert played.begin("test_third") == []
