"""Measures what a VMI costs on a real cluster, beside the least that Kubernetes itself takes for a Pod.

    python -m tests.bench.cluster_bench [--runs 7] [--vmis 100]

Runs as root; makes a cluster of a server and an agent on this machine, as tests/cluster does, and removes it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from kvedge.kube.informer import Informer
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.bench.bench_guest import bench_vmi
from tests.bench.process_memory import memory_of
from tests.bench.report import Goal, Report, Row, median, missed, spread
from tests.bench.running_watch import RunningWatch
from tests.bench.scale_bench import by_kind, is_write
from tests.support.cluster.control_plane import missing_programs
from tests.support.cluster.kvedge_cluster import SERVER, LocalCluster
from tests.support.cluster.machine_node import PAUSE, missing_runtime
from tests.support.waiting import wait_until

T = TypeVar("T", Pod, VirtualMachineInstance)
_SECONDS = 120.0
_SECONDS_EACH = 10.0
_AGENT = "n2"


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    parser = argparse.ArgumentParser("tests/bench/cluster_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="of which the median is taken (7)")
    parser.add_argument("--vmis", type=int, default=100, help="at how many on one node memory is measured again (100)")
    wanted = parser.parse_args()
    if missing := missing_programs() + missing_runtime():
        parser.error(f"needs {', '.join(missing)}")
    directory, report = Path(tempfile.mkdtemp(prefix="kvbench-")), Report()
    cluster = LocalCluster.create(directory / "c", 2)
    try:
        _memory(cluster, 0, report)
        _measure(cluster, wanted.runs, report)
        _fill(cluster, wanted.vmis)
        _memory(cluster, wanted.vmis, report)
    finally:
        cluster.remove()
        shutil.rmtree(directory, ignore_errors=True)
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _measure(cluster: LocalCluster, runs: int, report: Report) -> None:
    # The first of each fills caches.
    pods = [timed(cluster, Pod, sleeper(f"pod-{number}"), pod_runs) for number in range(runs + 1)][1:]
    timed(cluster, VirtualMachineInstance, bench_vmi("vmi-warm", network=True), _vmi_runs)
    before = len(cluster.plane.api.role_calls())
    vmis, at_running = [], []
    for number in range(runs):
        begun = time.time()
        vmis.append(timed(cluster, VirtualMachineInstance, bench_vmi(f"vmi-{number}", network=True), _vmi_runs))
        at_running.append((begun, begun + vmis[-1]))
    writes = [call for call in cluster.plane.api.role_calls()[before:] if is_write(call)]
    running = [call for call in writes if any(begun <= call.moment <= end for begun, end in at_running)]
    report.add(Row("VMI created → Running (reference: a Pod that sleeps)", "s", median(vmis), median(pods)))
    report.add(Row("writes of kvedge's roles for one VMI, created → Running", "", len(running) / runs, goal=Goal(5)))
    # Each of them was also deleted: what its end takes is written as well.
    report.add(Row("writes of kvedge's roles for one VMI, its end included", "", len(writes) / runs))
    report.notes.append(f"{runs} runs; Pods {spread(pods)}, VMIs {spread(vmis)}; guests are emulated (TCG)")
    report.notes += [f"created → Running: {by_kind(running, runs)}", f"with its end: {by_kind(writes, runs)}"]


def _fill(cluster: LocalCluster, count: int) -> None:
    """Let so many VMIs run on the agent."""
    names = [f"memory-{number:03}" for number in range(count)]
    watch = RunningWatch(cluster.client)
    watch.start()
    for name in names:
        document = bench_vmi(name, network=True)
        document["spec"]["nodeSelector"] = {"kubernetes.io/hostname": _AGENT}
        cluster.client.request("POST", VirtualMachineInstance.KIND.path("default"), document)
    watch.wait_running(names, _SECONDS + _SECONDS_EACH * count)
    watch.stop()


def _memory(cluster: LocalCluster, count: int, report: Report) -> None:
    for node, roles in ((SERVER, "controller, api and handler in one process"), (_AGENT, "handler of an agent")):
        (process,) = [process for process in psutil.process_iter() if _runs_on(process, node)]
        report.add(Row(f"{roles}, {count} VMIs on the agent, PSS", "MB", memory_of([process]).pss))


def timed(cluster: LocalCluster, kind: type[T], document: JsonObject, runs: Callable[[T], bool]) -> float:
    """Seconds from its creation until a watch tells that it runs; it is gone afterwards."""
    name = document["metadata"]["name"]
    seen: list[float] = []
    informer = Informer(cluster.client, kind, field_selector=f"metadata.name={name}")
    informer.on_change(lambda _, new: seen.append(time.monotonic()) if new is not None and runs(new) else None)
    informer.start()
    informer.wait_synced(30)
    try:
        begun = time.monotonic()
        cluster.client.request("POST", kind.KIND.path("default"), document)
        wait_until(lambda: seen, f"{name} runs", _SECONDS, 0.005)
        cluster.client.delete(kind, "default", name)
        wait_until(lambda: informer.get("default", name) is None, f"{name} is gone", _SECONDS)
    finally:
        informer.stop()
    return seen[0] - begun


def pod_runs(pod: Pod) -> bool:
    """Whether the reference is there."""
    return pod.status.phase == "Running"


def _vmi_runs(vmi: VirtualMachineInstance) -> bool:
    return vmi.status.phase == "Running"


def sleeper(name: str) -> JsonObject:
    """The Pod that is the reference."""
    container = {"name": "sleep", "image": PAUSE, "imagePullPolicy": "Never", "command": ["/bin/sleep", "600"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _runs_on(process: psutil.Process, node: str) -> bool:
    """Whether it is a node's `kvedge node`, and not what put it into the node's namespaces."""
    try:
        words = process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    return {"kvedge", "node", node}.issubset(words) and "python" in words[0]


if __name__ == "__main__":
    sys.exit(main())
