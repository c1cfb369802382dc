"""Measures from `addvolume` until a volume is Ready on a real kubelet, beside a Pod that sleeps and libvirt's attach.

    python -m tests.bench.cluster_hotplug_bench [--runs 7]

Runs as root; makes a cluster of one node on this machine, as tests/cluster does, and removes it. The claims are bound
to directories of the node before anything is measured. Sleeping Pods and volumes are measured in turns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from tests.bench.bench_guest import bench_vm
from tests.bench.cluster_bench import pod_runs, sleeper, timed
from tests.bench.hotplug_bench import bare_attach, seconds_until_ready
from tests.bench.report import Goal, Report, Row, median, missed, spread
from tests.support.cluster.control_plane import missing_programs
from tests.support.cluster.kvedge_cluster import SERVER, LocalCluster
from tests.support.cluster.machine_node import missing_runtime
from tests.support.hotplug_guest import HotplugGuest, a_claim

_NAME: Final = "bench"


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    parser = argparse.ArgumentParser("tests/bench/cluster_hotplug_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="of which the median is taken (7)")
    wanted = parser.parse_args()
    if missing := missing_programs() + missing_runtime():
        parser.error(f"needs {', '.join(missing)}")
    directory, report = Path(tempfile.mkdtemp(prefix="kvbench-")), Report()
    cluster = LocalCluster.create(directory / "c", 1)
    try:
        _measure(cluster, directory, wanted.runs, report)
    finally:
        cluster.remove()
        shutil.rmtree(directory, ignore_errors=True)
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _measure(cluster: LocalCluster, directory: Path, runs: int, report: Report) -> None:
    cluster.apply(bench_vm(_NAME))
    cluster.wait_phase(_NAME, "Running")
    bare, guest = bare_attach(cluster, _NAME, runs), HotplugGuest(cluster, _NAME)
    pods, volumes = [], []
    # The first of each fills caches.
    for number in range(runs + 1):
        name = f"volume-{number}"
        place = directory / name
        place.mkdir()
        place.chmod(0o777)
        cluster.apply(_volume(name, place))
        pods.append(timed(cluster, Pod, sleeper(f"pod-{number}"), pod_runs))
        volumes.append(seconds_until_ready(guest, a_claim(name, volumeName=name, storageClassName="")))
    pods, volumes = pods[1:], volumes[1:]
    reference = median(pods) + bare
    report.add(
        Row("addvolume until Ready (reference: a sleeping Pod, attach)", "s", median(volumes), reference, Goal(ratio=2))
    )
    load = os.getloadavg()[0]
    report.notes.append(
        f"{runs} runs in turns; Pods {spread(pods)}, volumes {spread(volumes)}, libvirt's attach {bare * 1000:.0f} ms;"
        f" load {load:.1f} at the end"
    )


def _volume(name: str, place: Path) -> JsonObject:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [SERVER]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "64Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(place)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


if __name__ == "__main__":
    sys.exit(main())
