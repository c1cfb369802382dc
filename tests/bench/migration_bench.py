"""Moves a guest under load between two real kubelets' nodes again and again, and drains a node.

    python -m tests.bench.migration_bench [--migrations 50] [--minutes 10] [--vms 20] [--only moves,drain]

Runs as root; makes a cluster of two nodes on this machine, as tests/cluster does, and removes it. The guest counts each
second in its memory and on its disks, and says so when these differ; beside that it writes memory, and blocks to its
claim, which it reads back from the disk and compares. A number that is lost, told twice or wrong ends the run.

- moves: there and back, each until the guest counts on over there, alone. `silence` is the longest time in which the
  guest, which says something each twentieth of a second, said nothing; the reference is the same without a migration.
- drain: so many VMs leave a node by `kubectl drain`; the reference is one migration after the other.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import LAUNCHER_GID, SYSTEM_NAMESPACE
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from tests.bench.report import Report, Row, median, percentile, spread
from tests.support.box import small_vm
from tests.support.cluster.control_plane import missing_programs
from tests.support.cluster.counting_guest import CountingGuest, counting_vm, migration
from tests.support.cluster.kvedge_cluster import SERVER, LocalCluster
from tests.support.cluster.machine_node import missing_runtime
from tests.support.waiting import wait_until

_PARTS: Final = ("moves", "drain")
_NAME: Final = "soak"
_CLAIM: Final = "soak"
_AGENT: Final = "n2"
_POLL: Final = 0.005
_MOVE_SECONDS: Final = 180.0
_DRAIN: Final = ("--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector", "kubevirt.io=virt-launcher")
# Writes memory without pause, tells that it is there, and compares a block with what the disk has of it.
_LOAD: Final = """
( while :; do dd if=/dev/zero of=/run/dirty bs=64k count=64 2>/dev/null; done ) &
( while sleep 0.05; do printf . >/dev/console; done ) &
( while sleep 1; do
    dd if=/dev/urandom of=/run/block bs=4k count=16 2>/dev/null
    dd if=/run/block of=/dev/vdd bs=4k seek=256 conv=fsync 2>/dev/null
    echo 1 >/proc/sys/vm/drop_caches
    dd if=/dev/vdd bs=4k skip=256 count=16 2>/dev/null | cmp -s - /run/block || echo "WRONG block" >/dev/console
done ) &
"""


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser("tests/bench/migration_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--migrations", type=int, default=50, help="how many, at most (50)")
    parser.add_argument("--minutes", type=float, default=10, help="after which no other one begins (10)")
    parser.add_argument("--vms", type=int, default=20, help="how many leave their node together (20)")
    parser.add_argument("--only", default=",".join(_PARTS), help="parts, with commas between them")
    wanted = parser.parse_args()
    # As Ctrl-C, also in the background: what was started is ended.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    if missing := missing_programs() + missing_runtime():
        parser.error(f"needs {', '.join(missing)}")
    directory, report = Path(tempfile.mkdtemp(prefix="kvbench-")), Report()
    cluster = LocalCluster.create(directory / "c", 2)
    parts = wanted.only.split(",")
    try:
        # libvirt does not know of this machine's file system that both nodes have it.
        _configure(cluster, {"unsafeMigrationOverride": True})
        if "moves" in parts:
            _measure_moves(cluster, wanted.migrations, wanted.minutes * 60, report)
        if "drain" in parts:
            _measure_drain(cluster, wanted.vms, report)
    finally:
        cluster.remove()
        shutil.rmtree(directory, ignore_errors=True)
    report.notes.append(f"{os.cpu_count()} CPUs; load {os.getloadavg()[0]:.1f} at the end; guests are emulated (TCG)")
    report.show()
    return 0


def _configure(cluster: LocalCluster, migrations: JsonObject) -> None:
    patch = json.dumps({"spec": {"configuration": {"migrations": migrations}}})
    cluster.kubectl("patch", "kubevirt", "kubevirt", "--namespace", SYSTEM_NAMESPACE, "--type=merge", "--patch", patch)


def _measure_moves(cluster: LocalCluster, most: int, seconds: float, report: Report) -> None:
    _make_claim(cluster)
    cluster.apply(counting_vm(_NAME, cluster.image, _CLAIM, _LOAD))
    cluster.wait_phase(_NAME, "Running")
    guest = CountingGuest(cluster, _NAME)
    with guest.log_on(guest.node) as log:
        wait_until(lambda: len(log.counts()) > 5, "the guest counts", 120, 0.2)
    with _Silence(guest) as quiet:
        time.sleep(10)
    taken: list[float] = []
    silences: list[float] = []
    begun = time.monotonic()
    while len(taken) < most and time.monotonic() - begun < seconds:
        name = f"move-{len(taken)}"
        with _Silence(guest) as silence:
            taken.append(_move(guest, name))
        silences.append(silence.longest)
        print(f"  {name}: {taken[-1]:.1f} s, silent for {silence.longest:.2f} s", file=sys.stderr, flush=True)
        cluster.kubectl("delete", "vmim", name)
    label = f"{len(taken)} migrations of a busy guest of 128 MiB"
    report.add(Row(f"{label}: created → Succeeded", "s", median(taken)))
    report.add(Row(f"{label}: the same, p95", "s", percentile(taken, 95)))
    report.add(Row(f"{label}: silence (reference: no migration)", "s", median(silences), quiet.longest))
    report.add(Row(f"{label}: the same, longest", "s", max(silences), quiet.longest))
    report.notes.append(
        f"migrations {spread(taken)}, silences {spread(silences)}; nothing was lost, told twice or wrong"
    )
    cluster.remove_vm(_NAME)


def _move(guest: CountingGuest, name: str) -> float:
    """Move it, check what it says; the seconds until its migration had succeeded."""
    source, target = guest.node, guest.other_node
    with guest.log_on(source) as old:
        begun = time.monotonic()
        guest.migrate(name)
        done = guest.wait_migration(name, "Succeeded", "Failed", seconds=_MOVE_SECONDS)
        taken = time.monotonic() - begun
        if done.status.phase != "Succeeded":
            raise AssertionError(f"{name} has failed: {guest.cluster.told(_NAME)}")
        with guest.log_on(target) as new:
            wait_until(lambda: len(new.counts()) > 1, f"it counts on {target}", 60)
            # A line that was half written in one log and half in the other is in neither.
            assert new.counts()[0] - old.counts()[-1] in (1, 2), (old.counts()[-3:], new.counts()[:3])
    guest.wait_only_on(target)
    return taken


class _Silence:
    """The longest time in which the guest said nothing, wherever it was."""

    def __init__(self, guest: CountingGuest) -> None:
        self.longest = 0.0
        self._guest = guest
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="silence", daemon=True)

    def __enter__(self) -> _Silence:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        uid = self._guest.vmi.metadata.uid
        places = [node.directory / "var/lib/kubelet/pods" for node in self._guest.cluster.nodes.values()]
        sizes: dict[Path, int] = {}
        last, look_at = time.monotonic(), 0.0
        while not self._over.is_set():
            now = time.monotonic()
            if now >= look_at:
                found = [path for place in places for path in place.glob(_log_of(uid))]
                sizes = {path: sizes.get(path, 0) for path in found}
                look_at = now + 0.5
            for path, known in sizes.items():
                with contextlib.suppress(FileNotFoundError):
                    size = path.stat().st_size
                    if size != known:
                        sizes[path] = size
                        self.longest, last = max(self.longest, now - last), now
            time.sleep(_POLL)


def _log_of(uid: str) -> str:
    return f"*/volumes/kubernetes.io~empty-dir/private/{uid}/virt-serial0-log"


def _measure_drain(cluster: LocalCluster, count: int, report: Report) -> None:
    names = [f"drained-{number:02}" for number in range(count)]
    with _only(cluster, _AGENT):
        for name in names:
            cluster.apply(_drained_vm(name, cluster.image))
        for name in names:
            cluster.wait_phase(name, "Running", 120.0 + 10 * count)
    one = [_migrate_back(cluster, names[0], number) for number in range(4)]
    single = statistics.median(one)
    begun = time.monotonic()
    cluster.kubectl("drain", _AGENT, *_DRAIN, f"--timeout={600 + 30 * count}s")
    taken = time.monotonic() - begun
    left = [name for name in names if (found := cluster.vmi(name)) is None or found.status.node_name == _AGENT]
    if left:
        raise AssertionError(f"{left} did not leave {_AGENT}")
    label = f"{count} VMs of 128 MiB leave a node, 2 at a time"
    report.add(Row(f"{label} (reference: one migration after the other)", "s", taken, single * count))
    report.add(Row(f"{label}: one migration by itself", "s", single))
    report.notes.append(f"single migrations {spread(one)}")


def _drained_vm(name: str, image: str) -> JsonObject:
    made = small_vm(name, image)
    spec = made["spec"]["template"]["spec"]
    spec["evictionStrategy"] = "LiveMigrate"
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}}]
    return made


def _migrate_back(cluster: LocalCluster, name: str, number: int) -> float:
    guest, asked = CountingGuest(cluster, name), f"{name}-{number}"
    target = guest.other_node
    begun = time.monotonic()
    cluster.apply(migration(asked, name))
    done: VirtualMachineInstanceMigration = guest.wait_migration(asked, "Succeeded", "Failed", seconds=_MOVE_SECONDS)
    taken = time.monotonic() - begun
    assert done.status.phase == "Succeeded", cluster.told(name)
    guest.wait_only_on(target)
    return taken


@contextlib.contextmanager
def _only(cluster: LocalCluster, node: str) -> Iterator[None]:
    """New Pods come to this node alone."""
    others: Sequence[str] = [name for name in cluster.nodes if name != node]
    for name in others:
        cluster.kubectl("cordon", name)
    try:
        yield
    finally:
        for name in others:
            cluster.kubectl("uncordon", name)


def _make_claim(cluster: LocalCluster) -> None:
    """A directory of this machine, which is on both nodes, as a claim."""
    assert SERVER in cluster.nodes
    directory = cluster.directory / _CLAIM
    directory.mkdir()
    # As a provisioner leaves it for the Pod's group.
    os.chown(directory, 0, LAUNCHER_GID)
    directory.chmod(0o770)
    common: JsonObject = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    size = {"storage": "64Mi"}
    place = {"hostPath": {"path": str(directory)}, "claimRef": {"namespace": cluster.namespace, "name": _CLAIM}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": _CLAIM}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": _CLAIM}}
    cluster.apply(
        volume | {"spec": {**common, "capacity": size, **place}},
        claim | {"spec": {**common, "resources": {"requests": size}, "volumeName": _CLAIM}},
    )


if __name__ == "__main__":
    sys.exit(main())
