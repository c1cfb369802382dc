"""CPUs of one box for guests alone: held by cpusets, kept over the agent's end, and given back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.types.core import Node, Pod, ResourceRequirements
from kvedge.runtime.linux.cpu_lists import parse_cpu_list
from kvedge.runtime.mount_table import mount_table
from kvedge.standalone.agent.container.cgroups import find_hierarchies
from tests.machine.agent.box import NODE, Box, box, marks, shell_pod
from tests.machine.agent.containers import is_alive
from tests.support.waiting import wait_until

STAYS = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
LABEL = {"kubevirt.io/cpumanager": "true"}
ALL = frozenset(range(os.cpu_count() or 1))
LAST = frozenset({max(ALL)})


def has_cpusets() -> bool:
    found = find_hierarchies(mount_table(), with_cpus=True)
    controllers = [(each.path / "cgroup.controllers") for each in found if each.unified]
    return any(each.is_of_cpus for each in found) or any("cpuset" in each.read_text().split() for each in controllers)


pytestmark = pytest.mark.skipif(len(ALL) < 2 or not has_cpusets(), reason="needs two CPUs, and cpusets")


@pytest.fixture
def made(tmp_path: Path, busybox: Path) -> Iterator[Box]:
    (tmp_path / "data").mkdir()
    with box(tmp_path / "data", busybox, "10.243.31.0/24", str(max(ALL))) as one:
        yield one
    assert marks(one.config) == []


def start(box: Box) -> None:
    """The agent, and what the handler says of its node."""
    box.start_agent()
    box.client.patch(Node, "", NODE, MergePatch({"metadata": {"labels": LABEL}}))


def guest(name: str) -> Pod:
    pod = shell_pod(name, STAYS, node_selector=dict(LABEL))
    amounts = {"cpu": "1", "memory": "32Mi"}
    pod.spec.containers[0].resources = ResourceRequirements(requests=dict(amounts), limits=dict(amounts))
    return pod


def runs_on(box: Box, pod: Pod) -> frozenset[int]:
    lines = Path(f"/proc/{box.pid(pod)}/status").read_text().splitlines()
    return next(parse_cpu_list(line.split()[1]) for line in lines if line.startswith("Cpus_allowed_list:"))


def wait_full(box: Box, name: str) -> None:
    def is_told() -> bool:
        pod = box.pod(name)
        return pod is not None and "Insufficient dedicated CPUs (1 wanted, 0 of 1 free)" in str(pod.status.conditions)

    wait_until(is_told, f"{name} waits for a CPU")


def test_a_guest_has_its_cpu_alone_and_the_next_one_waits_for_it(made: Box) -> None:
    start(made)
    made.client.create(guest("first"))
    made.create("other", STAYS)
    first, other = made.in_phase("first", "Running"), made.in_phase("other", "Running")
    assert (runs_on(made, first), runs_on(made, other)) == (LAST, ALL - LAST)
    told = json.loads((made.config.kubelet / "cpu_manager_state").read_text())
    assert told["policyName"] == "static"
    assert told["entries"] == {first.metadata.uid: {"pod": str(max(ALL))}}
    made.client.create(guest("second"))
    wait_full(made, "second")
    made.client.delete(Pod, "default", "first", grace_seconds=2)
    assert runs_on(made, made.in_phase("second", "Running")) == LAST


def test_a_guest_keeps_its_cpu_when_the_agent_is_killed(made: Box) -> None:
    start(made)
    made.client.create(guest("first"))
    pid = made.pid(made.in_phase("first", "Running"))
    made.stop_agent(signal.SIGKILL)
    start(made)
    made.client.create(guest("second"))
    wait_full(made, "second")
    assert is_alive(pid)
    assert runs_on(made, made.in_phase("first", "Running")) == LAST


def test_a_guest_keeps_its_cpu_when_its_record_is_damaged(made: Box) -> None:
    start(made)
    made.client.create(guest("first"))
    first = made.in_phase("first", "Running")
    made.stop_agent(signal.SIGKILL)
    made.files(first).record.write_bytes(b"rubbish")
    start(made)
    made.client.create(guest("second"))
    wait_full(made, "second")
    assert json.loads(made.files(first).record.read_bytes())["cpus"] == [max(ALL)]


def test_pods_that_run_follow_another_pool(made: Box) -> None:
    made.dedicated_cpus = ""
    made.start_agent()
    made.create("other", STAYS)
    other = made.in_phase("other", "Running")
    assert runs_on(made, other) == ALL
    made.stop_agent()
    made.dedicated_cpus = str(max(ALL))
    made.start_agent()
    wait_until(lambda: runs_on(made, other) == ALL - LAST, "the Pod is off the pool")
    made.stop_agent()
    made.dedicated_cpus = ""
    made.start_agent()
    wait_until(lambda: runs_on(made, other) == ALL, "the Pod is on all CPUs")


def test_a_pool_that_the_host_does_not_have_is_refused(made: Box) -> None:
    made.dedicated_cpus = "0-4000"
    with pytest.raises(AssertionError, match="dedicated-cpus: this host has no CPU"):
        made.start_agent()
