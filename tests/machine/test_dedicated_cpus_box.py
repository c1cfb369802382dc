"""A guest on one box that has a CPU for itself: on which CPUs its threads are, and others'."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.evacuation import LIVE_MIGRATABLE
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Node
from kvedge.runtime.mount_table import mount_table
from kvedge.standalone.agent.container.cgroups import find_hierarchies
from tests.support.box import Box, small_vm
from tests.support.waiting import wait_until

ALL = frozenset(range(os.cpu_count() or 1))
ALONE, SHARED = "alone", "shared"
LAST = max(ALL)

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        len(ALL) < 2 or not any(each.is_of_cpus for each in find_hierarchies(mount_table(), with_cpus=True)),
        reason="needs two CPUs, and cpusets of cgroups of version 1",
    ),
]


def a_vm(name: str, *, dedicated: bool) -> JsonObject:
    made = small_vm(name, "none")
    spec = made["spec"]["template"]["spec"]
    spec["domain"]["cpu"] = {"cores": 1, "dedicatedCpuPlacement": dedicated}
    spec["domain"]["memory"] = {"guest": "64Mi"}
    spec["volumes"] = [{"name": "system", "emptyDisk": {"capacity": "64Mi"}}]
    return made


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.94.53.0/24")
    found.options = ["--dedicated-cpus", str(LAST)]
    found.start()
    for name in (ALONE, SHARED):
        found.apply(a_vm(name, dedicated=name == ALONE))
    yield found
    found.remove()


def qemu(box: Box, name: str) -> int:
    vmi = box.wait_phase(name, "Running")
    (pid,) = box.qemu_pids(vmi.metadata.uid)
    return pid


def cpus_of_threads(pid: int) -> dict[str, set[int]]:
    """The CPUs of each thread, by its name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        found[(task / "comm").read_text().strip()] = os.sched_getaffinity(int(task.name))
    return found


def test_the_node_is_one_for_such_guests(box: Box) -> None:
    def is_labelled() -> bool:
        (node,) = box.client.list(Node)
        return node.metadata.labels.get("kubevirt.io/cpumanager") == "true"

    wait_until(is_labelled, "the node is labelled")


def test_each_thread_of_the_guest_is_on_its_cpu(box: Box) -> None:
    found = cpus_of_threads(qemu(box, ALONE))
    assert found["CPU 0/TCG"] == {LAST}
    assert set(map(frozenset, found.values())) == {frozenset({LAST})}


def test_others_are_kept_off_it(box: Box) -> None:
    assert set(map(frozenset, cpus_of_threads(qemu(box, SHARED)).values())) == {ALL - {LAST}}


def test_the_guest_stays_on_its_node(box: Box) -> None:
    found = condition(box.wait_phase(ALONE, "Running").status.conditions, LIVE_MIGRATABLE)
    assert found is not None
    # The first obstacle of a box is its network.
    assert found.status == "False"


def test_the_next_guest_waits_until_the_cpu_is_free(box: Box) -> None:
    pid = qemu(box, ALONE)
    box.end(signal.SIGKILL)
    box.start()
    box.apply(a_vm("next", dedicated=True))

    def is_told() -> bool:
        vmi = box.vmi("next")
        pods = [] if vmi is None else box.pods(vmi)
        return "Insufficient dedicated CPUs (1 wanted, 0 of 1 free)" in str([pod.status.conditions for pod in pods])

    wait_until(is_told, "the next guest waits for the CPU", 60)
    assert qemu(box, ALONE) == pid
    box.remove_vm(ALONE)
    assert cpus_of_threads(qemu(box, "next"))["CPU 0/TCG"] == {LAST}
