"""Measures launchers that are copies of a warm parent against launchers that start apart.

    python -m tests.bench.warm_bench [--runs 9]

Needs root. Two boxes run side by side, one with each setting and with as many guests before anything is measured: what
is measured is one more VMI, on one box and on the other in turns, so that whatever else the machine does is the same to
both. What the parent itself takes is told too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass  # noqa: TID251 - of dataclasses of this file
from pathlib import Path
from typing import Final

from tests.bench.bench_guest import bench_vmi
from tests.bench.process_memory import PodProcesses, control_plane, cpu_seconds, memory_of, pods_of
from tests.bench.report import Report, Row
from tests.bench.running_watch import RunningWatch
from tests.support.box import Box
from tests.support.waiting import wait_until

# Two that start apart in any case, and one that has the parent loaded.
_BEFORE: Final = 3
_SECONDS: Final = 200.0
_WAYS: Final = {"apart": "10.93.61.0/24", "warm": "10.93.62.0/24"}
# What a row says of each figure, and its unit.
_FIGURES: Final = (
    ("VMI created → Running, {} launchers", "s"),
    ("CPU time of it: the control plane, {}", "s"),
    ("CPU time of it: monitor and launcher, {}", "s"),
    ("memory of a launcher beside its QEMU, PSS, {}", "MB"),
    ("memory of a launcher beside its QEMU, unshared, {}", "MB"),
)


@dataclass(frozen=True, slots=True)
class _Run:
    """What one VMI took, in the order of the figures."""

    running: float
    control_plane: float
    launcher: float
    pss: float
    unshared: float


def main() -> int:
    """Measure; 0 when all runs were done."""
    parser = argparse.ArgumentParser("tests/bench/warm_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=9, help="on each box, of which the medians are taken (9)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/warm_bench: needs root, as kvedge standalone does\n")
        return 5
    report, load = Report(), os.getloadavg()[0]
    with ExitStack() as stack:
        boxes = {way: stack.enter_context(_box(way)) for way in _WAYS}
        watches = {way: stack.enter_context(_watching(box)) for way, box in boxes.items()}
        found: dict[str, list[_Run]] = {way: [] for way in _WAYS}
        for number in range(options.runs):
            # Each way is the first as often as the other.
            for way in sorted(_WAYS, reverse=bool(number % 2)):
                found[way].append(_run_one(boxes[way], watches[way], f"run-{number}"))
        parent = [process for process in control_plane(_pid(boxes["warm"])) if "warm-launchers" in process.cmdline()]
        report.add(Row("the parent of warm launchers, unshared", "MB", memory_of(parent).unshared))
    for index, (what, unit) in enumerate(_FIGURES):
        apart, warm = (statistics.median(astuple(run)[index] for run in found[way]) for way in ("apart", "warm"))
        report.add(Row(what.format("warm"), unit, warm, apart))
    report.notes.append(f"medians of {options.runs} in turns; reference: started apart; load {load:.1f} before")
    report.show()
    return 0


def _run_one(box: Box, watch: RunningWatch, name: str) -> _Run:
    plane = control_plane(_pid(box))
    # The parent's work for it is the launcher's, and a child of it counts once it has ended.
    before, begun = cpu_seconds(plane), time.monotonic()
    box.client.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances", bench_vmi(name))
    running = watch.wait_running([name], _SECONDS)[name] - begun
    used, pod = cpu_seconds(plane) - before, _pod_of(box, name)
    memory = memory_of(pod.own)
    found = _Run(running, used, cpu_seconds(pod.own), memory.pss, memory.unshared)
    box.client.request("DELETE", f"/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/{name}")
    watch.wait_gone([name], _SECONDS)
    wait_until(lambda: len(pods_of(_pid(box))) == _BEFORE, "nothing of it is left", _SECONDS)
    return found


def _pod_of(box: Box, name: str) -> PodProcesses:
    return next(pod for pod in pods_of(_pid(box)) if any(name in process.cmdline() for process in pod.own))


@contextmanager
def _box(way: str) -> Iterator[Box]:
    directory = Path(tempfile.mkdtemp(prefix="kvbench-"))
    box = Box(directory / "data", _WAYS[way], log_level="info")
    box.options += ["--launcher-start", way]
    box.data_dir.mkdir()
    try:
        box.start()
        for number in range(_BEFORE):
            box.apply(bench_vmi(f"before-{number}"))
            box.wait_phase(f"before-{number}", "Running", _SECONDS)
        yield box
    finally:
        box.remove()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _watching(box: Box) -> Iterator[RunningWatch]:
    watch = RunningWatch(box.client)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def _pid(box: Box) -> int:
    assert box.process is not None
    return box.process.pid


if __name__ == "__main__":
    sys.exit(main())
