"""Whether this box has room for a Pod that asks for more, in the kubelet's words; and which of several gets it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.core import Pod
from kvedge.resources.values.quantities import parse_quantity
from kvedge.standalone.agent.container.cgroups import CgroupLimits
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.pod_record import new_record, read_record, write_pod_record
from kvedge.standalone.agent.pod.pod_resizing import Resizing, follow_size, has_size
from tests.support.builders import plain_pod

BOX_GIB = 8


def a_pod(uid: str) -> Pod:
    pod = plain_pod("compute")
    pod.metadata.uid, pod.spec.node_name = uid, "box"
    return pod


def reason(alone: list[str], beside: list[str]) -> str:
    resizing = Resizing(
        lambda pod, others: beside if others else alone, lambda: [a_pod("a"), a_pod("b")], lambda uid: None
    )
    refused = resizing.refuse(a_pod("a"))
    return "" if refused is None else f"{refused.type} {refused.reason}: {refused.message}"


def test_what_never_fits_is_infeasible_and_what_fits_later_is_deferred() -> None:
    few = ["Insufficient memory"]
    assert reason(few, few) == "PodResizePending Infeasible: Node didn't have enough capacity: Insufficient memory"
    assert reason([], few) == "PodResizePending Deferred: Node didn't have enough resource: Insufficient memory"
    assert reason([], []) == ""


class Box:
    """8Gi of memory, and Pods that have begun with some of it; only the cgroups are not there."""

    def __init__(self, tmp_path: Path, **gib: int) -> None:
        self.pods = LocalPods(tmp_path)
        self.seconds = 0
        self.is_full = False
        for name, amount in gib.items():
            pod = a_pod(name)
            pod.metadata.name, pod.status.phase = name, "Running"
            pod.spec.containers[0].resources.requests["memory"] = f"{amount}Gi"
            self.pods.take_on(pod, new_record(pod))
        self.names = list(gib)
        self.resizing = Resizing(self._find_lacks, lambda: [self.local(name).pod for name in self.names], self.pods.get)
        no_limits = SimpleNamespace(resize=lambda uid, limits: "", usage=lambda uid: None)
        self.places = cast(Any, SimpleNamespace(limits_of=lambda pod, uid: CgroupLimits(), cgroups=no_limits))

    @staticmethod
    def _find_lacks(pod: Pod, others: Any) -> list[str]:
        total = sum(parse_quantity(each.spec.containers[0].resources.requests["memory"]) for each in (pod, *others))
        return ["Insufficient memory"] if total > BOX_GIB << 30 else []

    def _write(self, local: LocalPod) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        write_pod_record(local.files, local.record)

    def local(self, name: str) -> LocalPod:
        found = self.pods.get(name)
        assert found is not None
        return found

    def ask(self, name: str, gib: int) -> None:
        self.local(name).pod.spec.containers[0].resources.requests["memory"] = f"{gib}Gi"

    def look(self, name: str) -> str:
        """The Pod's worker looks, and writes the Pod's status; what it says."""
        local = self.local(name)
        follow_size(self.resizing, self.places, local, self._write)
        before = condition(local.pod.status.conditions, "PodResizePending")
        self.seconds += 1
        if local.resize is not None:
            since = f"2026-01-01T00:00:{self.seconds:02}Z" if before is None else before.last_transition_time
            local.resize.last_transition_time = since
        local.pod.status.conditions = [] if local.resize is None else [local.resize]
        return "has it" if has_size(local) else local.resize.reason if local.resize is not None else ""

    def end(self, name: str) -> None:
        self.names.remove(name)


def test_two_that_wait_do_not_keep_each_other_waiting(tmp_path: Path) -> None:
    box = Box(tmp_path, a=2, b=2, c=3)
    box.ask("a", 5)
    box.ask("b", 5)
    assert (box.look("a"), box.look("b")) == ("Deferred", "Deferred")
    box.end("c")
    assert (box.look("a"), box.look("b")) == ("has it", "Deferred")
    box.ask("a", 2)
    assert (box.look("a"), box.look("b")) == ("has it", "has it")


def test_the_one_that_waits_longest_and_fits_comes_first(tmp_path: Path) -> None:
    box = Box(tmp_path, a=2, b=2, c=2, d=2)
    box.ask("b", 4)
    box.ask("a", 4)
    assert (box.look("b"), box.look("a")) == ("Deferred", "Deferred")
    box.end("c")
    assert box.look("a") == "Deferred", "b has waited longer, and fits"
    assert (box.look("b"), box.look("a")) == ("has it", "Deferred")
    box.end("d")
    assert box.look("a") == "has it"


def test_one_that_does_not_fit_keeps_no_other_from_what_there_is(tmp_path: Path) -> None:
    box = Box(tmp_path, a=2, b=2, c=2)
    box.ask("a", 7)
    box.ask("b", 4)
    assert (box.look("a"), box.look("b")) == ("Deferred", "has it")
    box.ask("b", 2)
    assert box.look("b") == "has it"


@pytest.mark.parametrize("what", ["never fits", "ends", "has not begun"])
def test_one_that_does_not_wait_keeps_its_size_and_no_place(tmp_path: Path, what: str) -> None:
    box = Box(tmp_path, a=2, b=2, c=3)
    box.ask("a", 4)
    box.look("a")
    pod = box.local("a").pod
    if what == "ends":
        pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    elif what == "has not begun":
        pod.status.phase = "Pending"
    else:
        pod.status.conditions = [Condition(type="PodResizePending", status="True", reason="Infeasible")]
    box.ask("b", 3)
    assert box.look("b") == "has it"


def test_a_size_that_cannot_be_written_down_is_not_given(tmp_path: Path) -> None:
    box = Box(tmp_path, a=2)
    box.ask("a", 4)
    box.is_full = True
    assert box.look("a") == "Error"
    local = box.local("a")
    assert local.resize is not None
    assert "record cannot be written: [Errno 28]" in local.resize.message
    box.is_full = False
    assert box.look("a") == "has it"
    record = read_record(local.files)
    assert record is not None
    assert record.decode_pod().spec.containers[0].resources.requests["memory"] == "4Gi"
