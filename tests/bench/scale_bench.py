"""Measures the controllers against a real kube-apiserver with many VMIs on simulated nodes.

    python -m tests.bench.scale_bench [--vmis 100,1000] [--nodes 100] [--every 0.1]

Controller and api role run as processes of their own, as they do in a cluster; scheduler, kubelets and handlers are
simulated (simulated_nodes.py), so what is measured is what kvedge's controllers add: time, memory, writes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.role_users import API_USER, CONTROLLER_USER
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.standalone.apiserver.access.authorizer_rules import APIS, CONTROLLERS
from tests.bench.bench_guest import bench_vmi
from tests.bench.process_memory import cpu_seconds, memory_of
from tests.bench.report import Report, Row, percentile
from tests.bench.running_watch import RunningWatch
from tests.bench.simulated_nodes import SimulatedNodes
from tests.support.either_server import REAL, EitherServer, running
from tests.support.kube_apiserver import RealApiServer, RoleCall, reachable_address

_ROLES = {"controller": (CONTROLLER_USER, CONTROLLERS), "api": (API_USER, APIS)}
_CHANGES = frozenset({"create", "update", "patch", "delete"})
_SECONDS = 900.0
PLAYER = "simulated-nodes"


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser("tests/bench/scale_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--vmis", default="100,1000", help="how many VMIs, one run after another (100,1000)")
    parser.add_argument("--nodes", type=int, default=100, help="simulated nodes (100)")
    parser.add_argument(
        "--every", type=float, default=0.0, help="seconds between two; else as fast as eight clients can"
    )
    wanted = parser.parse_args()
    counts = [int(text) for text in wanted.vmis.split(",")]
    report = Report()
    directory = Path(tempfile.mkdtemp(prefix="kvbench-scale-"))
    try:
        with running(REAL, directory) as server, run_roles(server, directory) as roles:
            # What nodes report of their VMIs is believed of a role only, and this one may be all nodes.
            player = KubeClient.from_kubeconfig(server.kubeconfig_of(PLAYER, APIS, "system:masters"))
            nodes = SimulatedNodes(player, wanted.nodes)
            nodes.start()
            wait_admission(server.admin, roles, directory)
            report_memory(report, roles, 0)
            for count in counts:
                _measure(report, server, roles, count, wanted.every)
            nodes.stop()
            player.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report.notes.append(f"{wanted.nodes} simulated nodes; {os.cpu_count()} CPUs, shared with etcd and kube-apiserver")
    report.show()
    return 0


@contextlib.contextmanager
def run_roles(server: EitherServer, directory: Path) -> Iterator[dict[str, psutil.Process]]:
    """Controller and api role, as processes of their own."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for role, (user, group) in _ROLES.items():
            kubeconfig = server.kubeconfig_of(user, group)
            # An API server takes no loopback address for a service of others.
            more = {"controller": ["--emulation", "tcg"], "api": ["--api-address", f"{reachable_address()}:0"]}[role]
            command = [sys.executable, "-m", "kvedge", role, "--kubeconfig", str(kubeconfig), *more]
            with (directory / f"{role}.log").open("wb") as log:
                processes[role] = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        yield {role: psutil.Process(process.pid) for role, process in processes.items()}
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        for process in processes.values():
            process.wait(30)


def wait_admission(client: KubeClient, roles: dict[str, psutil.Process], directory: Path) -> None:
    """Until the api role's webhooks answer: a VMI that enters has its finalizer."""
    deadline = time.monotonic() + 60
    path = VirtualMachineInstance.KIND.path("default")
    while time.monotonic() < deadline:
        gone = [role for role, process in roles.items() if process.status() == psutil.STATUS_ZOMBIE]
        if gone:
            raise RuntimeError((directory / f"{gone[0]}.log").read_text()[-2000:])
        with contextlib.suppress(KubeError):
            if client.request("POST", path, bench_vmi("first"), {"dryRun": "All"})["metadata"].get("finalizers"):
                return
        time.sleep(0.5)
    raise TimeoutError("the api role's webhooks are not registered")


def _measure(report: Report, server: EitherServer, roles: dict[str, psutil.Process], count: int, every: float) -> None:
    assert isinstance(server.server, RealApiServer)
    names = [f"scale-{count}-{number:04}" for number in range(count)]
    watch = RunningWatch(server.admin)
    watch.start()
    calls_before = len(server.server.role_calls())
    used = {role: cpu_seconds([process]) for role, process in roles.items()}
    begun = time.monotonic()
    created: dict[str, float] = {}

    def create(number: int) -> None:
        time.sleep(max(0.0, begun + number * every - time.monotonic()))
        name = names[number]
        created[name] = time.monotonic()
        server.admin.request("POST", VirtualMachineInstance.KIND.path("default"), bench_vmi(name))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(count)))
    posted = time.monotonic() - begun
    at = watch.wait_running(names, _SECONDS)
    taken = [at[name] - created[name] for name in names]
    label = f"{count} VMIs on simulated nodes" + (f", one each {every * 1000:.0f} ms" if every else "")
    report.add(Row(f"{label}: all created", "s", posted))
    report.add(Row(f"{label}: all Running", "s", max(at.values()) - begun))
    for percent in (50, 95):
        report.add(Row(f"{label}: created → Running, p{percent}", "s", percentile(taken, percent)))
    for role, process in roles.items():
        each = (cpu_seconds([process]) - used[role]) / count
        report.add(Row(f"{label}: CPU time of the {role} per VMI", "s", each))
    writes = [call for call in server.server.role_calls()[calls_before:] if is_write(call)]
    epoch = time.time() - time.monotonic()
    # A new object has no name in the server's log; a launcher is always made before its VMI runs.
    early = [call for call in writes if call.verb == "create" or call.moment <= epoch + _running(at, call)]
    report.add(Row(f"{label}: writes of controller and api per VMI, created → Running", "", len(early) / count))
    report.add(Row(f"{label}: writes of controller and api per VMI, in all", "", len(writes) / count))
    report.notes.append(f"{label}, created → Running: {by_kind(early, count)} (and one of its handler, simulated)")
    report_memory(report, roles, count)
    _delete(server.admin, watch, names)
    watch.stop()


def _running(at: Mapping[str, float], call: RoleCall) -> float:
    """When the VMI got Running that a call is about, itself or by its launcher's name."""
    name = call.name.removeprefix("virt-launcher-")
    return max((at.get(found, 0.0) for found in (name, name.rpartition("-")[0])), default=0.0)


def by_kind(calls: Sequence[RoleCall], count: int) -> str:
    """How many of each kind for one VMI, the most first."""
    kinds = Counter(f"{call.verb} {call.resource}" for call in calls)
    return ", ".join(f"{kind} {many / count:.2f}" for kind, many in kinds.most_common(8))


def is_write(call: RoleCall) -> bool:
    """Whether a role changed an object; heartbeats and courtesies do not count, as in KubeVirt's figures."""
    return call.verb in _CHANGES and call.resource not in ("leases", "events") and call.user != PLAYER


def report_memory(report: Report, roles: dict[str, psutil.Process], count: int) -> None:
    """What each role's process takes now."""
    for role, process in roles.items():
        report.add(Row(f"{role} at {count} VMIs, PSS", "MB", memory_of([process]).pss))


def _delete(client: KubeClient, watch: RunningWatch, names: Sequence[str]) -> None:
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: client.delete(VirtualMachineInstance, "default", name), names))
    watch.wait_gone(list(names), _SECONDS)
    print(f"  {len(names)} VMIs deleted in {time.monotonic() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
