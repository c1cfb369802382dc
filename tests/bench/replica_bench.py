"""Measures ReplicaSets and pools of many VMs on simulated nodes, against a real kube-apiserver.

    python -m tests.bench.replica_bench [--replicas 100,1000] [--kinds replicaset,pool] [--nodes 100]

Each is made with all its replicas at once, and scaled to half of them. A reference in the table is the figure for one
replica of the smallest number: what grows faster than the number shows in the ratio. Times have no goal, as other
work of the machine's shows in them. What is played is told in
simulated_nodes.py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.scaling.pools import VirtualMachinePool
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.standalone.apiserver.access.authorizer_rules import APIS
from tests.bench.bench_guest import bench_vm, bench_vmi
from tests.bench.process_memory import cpu_seconds, memory_of
from tests.bench.report import Goal, Report, Row, missed
from tests.bench.scale_bench import PLAYER, by_kind, is_write, run_roles, wait_admission
from tests.bench.simulated_nodes import SimulatedNodes
from tests.support.either_server import REAL, EitherServer, running
from tests.support.kube_apiserver import RealApiServer

_SECONDS: Final = 900.0
_POLL: Final = 0.05
_LABELS: Final = {"bench": "replica"}
# Each replica of a thousand may take so much more than one of a hundred: etcd and the garbage of Python grow a little.
_LINEAR: Final = Goal(ratio=1.5)
_CLASSES: Final[dict[str, Any]] = {"replicaset": VirtualMachineInstanceReplicaSet, "pool": VirtualMachinePool}


@dataclass
class Population:
    """The VMIs that there are: how many, and how many of them run."""

    client: KubeClient
    _informer: Informer[VirtualMachineInstance] = field(init=False)

    def __post_init__(self) -> None:
        self._informer = Informer(self.client, VirtualMachineInstance)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Population]:
        """Watched inside."""
        self._informer.start()
        if not self._informer.wait_synced(30):
            raise TimeoutError("the API did not list VMIs")
        try:
            yield self
        finally:
            self._informer.stop()

    def wait(self, count: int) -> float:
        """When there were exactly so many, all of which run. Raises TimeoutError."""
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            found = self._informer.list()
            if len(found) == count and all(vmi.status.phase == "Running" for vmi in found):
                return time.monotonic()
            time.sleep(_POLL)
        raise TimeoutError(f"{len(self._informer.list())} VMIs, and {count} were to run")


def main() -> int:
    """Measure; 1 when a goal was missed."""
    parser = argparse.ArgumentParser("tests/bench/replica_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--replicas", default="100,1000", help="how many, one run after another (100,1000)")
    parser.add_argument("--kinds", default=",".join(_CLASSES), help=f"of {', '.join(_CLASSES)} (all)")
    parser.add_argument("--nodes", type=int, default=100, help="simulated nodes (100)")
    wanted = parser.parse_args()
    # As Ctrl-C, also in the background: what was started is ended.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    report = Report()
    directory = Path(tempfile.mkdtemp(prefix="kvbench-replicas-"))
    try:
        with running(REAL, directory) as server, run_roles(server, directory) as roles:
            player = KubeClient.from_kubeconfig(server.kubeconfig_of(PLAYER, APIS, "system:masters"))
            nodes = SimulatedNodes(player, wanted.nodes)
            nodes.start()
            wait_admission(server.admin, roles, directory)
            with Population(server.admin).watched() as population:
                for kind in wanted.kinds.split(","):
                    first: dict[str, float] = {}
                    for count in sorted(int(text) for text in wanted.replicas.split(",")):
                        _measure(report, server, roles, population, kind, count, first)
            nodes.stop()
            player.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    load = os.getloadavg()[0]
    report.notes.append(
        f"{wanted.nodes} simulated nodes; {os.cpu_count()} CPUs, shared with etcd and kube-apiserver; load {load:.1f}"
    )
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _measure(
    report: Report,
    server: EitherServer,
    roles: dict[str, psutil.Process],
    population: Population,
    kind: str,
    count: int,
    first: dict[str, float],
) -> None:
    assert isinstance(server.server, RealApiServer)
    client, cls = server.admin, _CLASSES[kind]
    name, label = f"{kind}-{count}", f"{kind} of {count}"

    def each(what: str, unit: str, value: float, goal: Goal = _LINEAR) -> None:
        """A figure for one replica, against that of the smallest number."""
        before = first.get(what)
        report.add(Row(f"{label}: {what}", unit, value, before, goal if before else Goal()))
        first.setdefault(what, value)

    calls_before = len(server.server.role_calls())
    used = {role: cpu_seconds([process]) for role, process in roles.items()}
    begun = time.monotonic()
    client.request("POST", cls.KIND.path("default"), _document(kind, name, count))
    taken = population.wait(count) - begun
    report.add(Row(f"{label}: all Running", "s", taken))
    each("time of one replica until all run", "s", taken / count, Goal())
    _wait_until(lambda: _ready(client, cls, name) == count, f"{count} ready replicas in the status")
    for role, process in roles.items():
        each(f"CPU time of the {role} for one replica", "s", (cpu_seconds([process]) - used[role]) / count)
    writes = [call for call in server.server.role_calls()[calls_before:] if is_write(call)]
    each("writes of controller and api for one replica", "", len(writes) / count)
    report.notes.append(f"{label}: {by_kind(writes, count)}")
    for role, process in roles.items():
        report.add(Row(f"{label}: {role}, PSS", "MB", memory_of([process]).pss))
    begun = time.monotonic()
    client.patch(cls, "default", name, MergePatch({"spec": {"replicas": count // 2}}))
    taken = population.wait(count // 2) - begun
    report.add(Row(f"{label}: scaled to {count // 2}", "s", taken))
    each("time of one replica that goes", "s", taken / (count - count // 2), Goal())
    client.delete(cls, "default", name)
    # No controller-manager collects what it owns.
    _delete_all(client, kind)
    population.wait(0)
    print(f"  {label}: done", file=sys.stderr, flush=True)


def _document(kind: str, name: str, count: int) -> JsonObject:
    meta = {"name": name, "namespace": "default"}
    selector = {"matchLabels": _LABELS}
    template: dict[str, Any] = {"metadata": {"labels": _LABELS}}
    if kind == "pool":
        vm: dict[str, Any] = bench_vm(name)["spec"]
        vm = vm | {"template": vm["template"] | {"metadata": {"labels": _LABELS}}}
        spec: JsonObject = {
            "replicas": count,
            "selector": selector,
            "virtualMachineTemplate": template | {"spec": vm},
        }
    else:
        spec = {"replicas": count, "selector": selector, "template": template | {"spec": bench_vmi(name)["spec"]}}
    kept = _CLASSES[kind].KIND
    return {"apiVersion": kept.api_version, "kind": kept.kind, "metadata": meta, "spec": spec}


def _ready(client: KubeClient, cls: Any, name: str) -> int:
    return client.get(cls, "default", name).status.ready_replicas or 0


def _wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.2)


def _delete_all(client: KubeClient, kind: str) -> None:
    from kvedge.resources.types.vm import VirtualMachine

    of: Any = VirtualMachine if kind == "pool" else VirtualMachineInstance
    for item in client.list(of, "default"):
        client.delete(of, "default", item.metadata.name)


if __name__ == "__main__":
    sys.exit(main())
