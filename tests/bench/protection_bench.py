"""Measures snapshots, backups and restores of a VM that runs against `qemu-img convert` of its disk, and what its
guest notices of them.

    python -m tests.bench.protection_bench [--gib 20] [--mib 1024] [--changed 64] [--runs 3] [--quiet 10] [--only PARTS]

Needs root, gcc and restic. One box with one VM that has a sparse disk of `--gib`, of which its guest has written
`--mib`. All of a run is measured one after the other, and ratios are of the same run: what the guest's writes take is
compared with a time in which nothing else goes on, and what is copied with `qemu-img convert` of the same image just
before, which copies a disk that is written at the same time and so is not one moment. Both have their result on stable
storage at the end; ours are told from the object's creation until its status says that it is complete, with the worker
Pods, the freeze and (in a repository) restic's check of the key.
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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from kvedge.kube.errors import Unavailable
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup
from tests.bench.report import Goal, Report, Row, median, missed, spread
from tests.bench.worker_watch import WorkerWatch
from tests.bench.writing_guest import NAME, TARGET, Writes, WritingGuest, writing_guest
from tests.support.waiting import wait_until

_SNAPSHOTS: Final = "snapshot.kubevirt.io/v1beta1"
_VM_BACKUPS: Final = "backup.kubevirt.io/v1alpha1"
_BACKUPS: Final = "backup.kvedge.io/v1alpha1"
# In this order.
PARTS: Final = ("snapshot", "repository", "tracker")
_FROZEN_SECONDS: Final = 0.3
_LONGEST_SECONDS: Final = 1800.0
# Seconds of ours, and of the reference in the same run.
Pair = tuple[float, float]


class _Round:
    """One run: snapshot, backups and restores of the guest's disk, one after the other."""

    def __init__(self, guest: WritingGuest, store: Path, number: int, options: argparse.Namespace) -> None:
        self._guest, self._box, self._store = guest, guest.box, store
        self._number, self._options = number, options
        self.taken: dict[str, Pair] = {}
        self.writes: dict[str, Writes] = {}

    def measure(self) -> None:
        """All of it; nothing of it is left but what lies in the store."""
        with self._guest.writing() as quiet:
            time.sleep(self._options.quiet)
        self.writes["nothing else"] = quiet[0]
        for part in PARTS:
            if part in self._options.only:
                getattr(self, f"_measure_{part}")()
        self._clean()

    def _measure_snapshot(self) -> None:
        convert = self._convert()
        self._take("snapshot, until ready", self._snapshot, convert, "a snapshot")
        self._take("snapshot put into another VM", self._restore_snapshot, self._convert_back())

    def _measure_repository(self) -> None:
        repository = self._make_repository()
        first, second = (partial(self._back_up, repository, word) for word in ("full", "next"))
        self._take("backup into a new repository", first, self._convert(), "a backup")
        self._guest.fill("changed", self._options.changed)
        self._take(f"backup into the repository, {self._options.changed} MiB changed", second, self._convert())
        self._take("restore from the repository", partial(self._restore_backup, repository), self._convert_back())

    def _measure_tracker(self) -> None:
        self._take("backup by a tracker, full", partial(self._back_up_vm, "full", full=True), self._convert())
        self._guest.fill("changed", self._options.changed)
        second = partial(self._back_up_vm, "next", full=False)
        self._take(f"backup by the tracker, {self._options.changed} MiB changed", second, self._convert())

    def _take(self, what: str, work: Callable[[], None], reference: float, writes: str = "") -> None:
        with self._guest.writing() if writes else contextlib.nullcontext([]) as found:
            begun = time.monotonic()
            work()
            taken = time.monotonic() - begun
        if writes:
            self.writes[writes] = found[0]
        print(f"  {what}: {taken:.1f} s, reference {reference:.1f} s", file=sys.stderr, flush=True)
        self.taken[what] = taken, reference

    def _name(self, word: str) -> str:
        return f"{word}-{self._number}"

    def _apply(self, version: str, kind: str, name: str, **spec: object) -> None:
        meta = {"name": name, "namespace": "default"}
        self._box.apply({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})

    def _wait(self, kind: type[Any], name: str, is_good: Callable[[Any], bool]) -> None:
        def over() -> Any:
            # An API that a loaded machine keeps waiting is asked again.
            with contextlib.suppress(Unavailable):
                found = self._box.client.get(kind, "default", name)
                return found if found.is_final else None
            return None

        found = wait_until(over, f"{kind.__name__} {name} is over", _LONGEST_SECONDS, 0.05)
        if not is_good(found):
            raise RuntimeError(f"{kind.__name__} {name}: {found.status}")

    def _snapshot(self) -> None:
        name = self._name("snapshot")
        self._apply(_SNAPSHOTS, "VirtualMachineSnapshot", name, source=_source("kubevirt.io", "VirtualMachine", NAME))
        self._wait(VirtualMachineSnapshot, name, lambda found: found.status.phase == "Succeeded")

    def _restore_snapshot(self) -> None:
        name = self._name("put")
        target = _source("kubevirt.io", "VirtualMachine", name)
        words = {"target": target, "virtualMachineSnapshotName": self._name("snapshot")}
        self._apply(_SNAPSHOTS, "VirtualMachineRestore", name, **words)
        self._wait(VirtualMachineRestore, name, lambda found: bool(found.status.complete))

    def _make_repository(self) -> str:
        """A repository of this run's own: the first backup into it has to write all."""
        name = self._name("place")
        place, key = self._store / name, self._store / "key"
        place.mkdir()
        os.chown(place, LAUNCHER_UID, LAUNCHER_GID)
        key.write_text("a key of this bench")
        self._box.cli("backup", "add-repository", name, "--directory", str(place), "--password-file", str(key))
        return name

    def _back_up(self, repository: str, word: str) -> None:
        name = self._name(word)
        self._apply(_BACKUPS, "BackupRun", name, vmName=NAME, repositoryName=repository)
        self._wait(BackupRun, name, lambda found: found.status.phase == "Succeeded")

    def _restore_backup(self, repository: str) -> None:
        name = self._name("back")
        self._apply(_BACKUPS, "BackupRestore", name, vmName=NAME, repositoryName=repository, targetName=name)
        self._wait(BackupRestore, name, lambda found: found.status.phase == "Succeeded")

    def _back_up_vm(self, word: str, *, full: bool) -> None:
        name = self._name(f"vm-{word}")
        words = {"pvcName": TARGET, "forceFullBackup": full}
        chain = _source("backup.kubevirt.io", "VirtualMachineBackupTracker", "chain")
        self._apply(_VM_BACKUPS, "VirtualMachineBackup", name, source=chain, **words)
        wanted = "Full" if full else "Incremental"
        self._wait(VirtualMachineBackup, name, lambda found: found.status.type == wanted and found.is_true("Complete"))

    @property
    def _converted(self) -> Path:
        return self._store / "converted.qcow2"

    def _convert(self) -> float:
        # The guest has the lock of its image.
        return _convert("-U", "-f", "raw", "-O", "qcow2", self._guest.image, self._converted)

    def _convert_back(self) -> float:
        made = self._store / "back.img"
        taken = _convert("-f", "qcow2", "-O", "raw", self._converted, made)
        made.unlink()
        return taken

    def _clean(self) -> None:
        """The VMs that were made, with their disks, and the snapshot."""
        for word, part in {"put": "snapshot", "back": "repository"}.items():
            if part in self._options.only:
                self._box.remove_vm(self._name(word))
        for kind in ("VirtualMachineSnapshot", "VirtualMachineBackup"):
            self._box.cli("delete", kind.lower(), "--all", check=False)
        self._converted.unlink()


def _source(group: str, kind: str, name: str) -> JsonObject:
    return {"apiGroup": group, "kind": kind, "name": name}


def _convert(*words: str | Path) -> float:
    begun = time.monotonic()
    subprocess.run(["qemu-img", "convert", "-t", "writeback", *words], check=True)
    return time.monotonic() - begun


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    options = _arguments()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/protection_bench: needs root, as kvedge standalone does\n")
        return 5
    # As Ctrl-C: what was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report, directory = Report(), Path(tempfile.mkdtemp(prefix="kvbench-", dir="/var/tmp"))
    loads = [os.getloadavg()[0]]
    try:
        directory.chmod(0o755)
        store = directory / "store"
        store.mkdir()
        with writing_guest(directory, options.gib, options.mib) as guest:
            _measure(guest, store, options, report)
    finally:
        shutil.rmtree(directory)
    loads.append(os.getloadavg()[0])
    report.notes.append(
        f"medians of {options.runs}; {os.cpu_count()} CPUs, load {loads[0]:.1f} before, {loads[1]:.1f} at the end; "
        "the guest is emulated (TCG)"
    )
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("tests/bench/protection_bench", description="Measures how VMs are protected.")
    parser.add_argument("--gib", type=int, default=20, help="size of the disk (20)")
    parser.add_argument("--mib", type=int, default=1024, help="of which so much was written (1024)")
    parser.add_argument("--changed", type=int, default=64, help="MiB that change before the second backup (64)")
    parser.add_argument("--runs", type=int, default=3, help="of which the median is taken (3)")
    parser.add_argument("--quiet", type=float, default=10, help="seconds of writes without anything else (10)")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help=f"of {','.join(PARTS)}")
    found = parser.parse_args()
    found.only = found.only.split(",")
    if unknown := set(found.only) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return found


def _measure(guest: WritingGuest, store: Path, options: argparse.Namespace, report: Report) -> None:
    chain = _source("kubevirt.io", "VirtualMachine", NAME)
    meta = {"name": "chain", "namespace": "default"}
    kind = "VirtualMachineBackupTracker"
    guest.box.apply({"apiVersion": _VM_BACKUPS, "kind": kind, "metadata": meta, "spec": {"source": chain}})
    assert guest.box.process is not None
    watch = WorkerWatch(guest.box.process.pid)
    watch.start()
    rounds = [_Round(guest, store, number, options) for number in range(options.runs)]
    try:
        for each in rounds:
            each.measure()
    finally:
        watch.stop()
    _report_writes(rounds, report)
    frozen = guest.frozen()
    report.add(
        Row(
            "the guest was frozen, median of all its snapshots and backups",
            "s",
            median(frozen),
            goal=Goal(_FROZEN_SECONDS),
        )
    )
    report.notes.append(f"frozen {len(frozen)} times: {spread(frozen)}")
    report.notes.append(
        f"a disk of {options.gib} GiB, {options.mib} MiB of it written; reference of copies: qemu-img convert of it"
    )
    for what in rounds[0].taken:
        pairs = [each.taken[what] for each in rounds]
        ours, bare = (median(list(each)) for each in zip(*pairs, strict=True))
        report.add(Row(what, "s", ours, bare))
    for kind, most in sorted(watch.most.items()):
        report.add(Row(f"{kind}, PSS at most", "MB", most))


def _report_writes(rounds: list[_Round], report: Report) -> None:
    quiet = [each.writes["nothing else"] for each in rounds]
    for during in [each for each in rounds[0].writes if each != "nothing else"]:
        found = [each.writes[during] for each in rounds]
        for what, pick in (
            ("p50", lambda it: it.middle),
            ("p99", lambda it: it.p99),
            ("longest", lambda it: it.longest),
        ):
            ours, bare = (median([pick(each) for each in items]) for items in (found, quiet))
            report.add(Row(f"the guest's write of 4 KiB during {during}, {what}", "s", ours, bare))
        report.notes.append(f"writes during {during}: {_counts(found)}; without: {_counts(quiet)}")


def _counts(writes: list[Writes]) -> str:
    return ", ".join(str(each.count) for each in writes)


if __name__ == "__main__":
    sys.exit(main())
