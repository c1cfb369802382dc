"""Measures how soon a claim that is asked to grow has grown, and how soon its guest sees that, on one box.

    python -m tests.bench.growth_bench [--runs 10]

Needs root. The guest is asked by its web server, a new process for each question, so that what it takes to answer is
measured as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from kvedge.kube.patches import MergePatch
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.values.quantities import parse_bytes
from tests.bench.report import Goal, Report, Row, median, missed
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.waiting import wait_until

_NAME: Final = "bench"
_IMAGE: Final = "local/guest:1"
_MODES: Final = {"file": "Filesystem", "device": "Block"}
_MIB: Final = 1 << 20
# Of a claim at first, and how much it is to have more each time.
_FIRST_MIB: Final = 64
_STEP_MIB: Final = 32


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    parser = argparse.ArgumentParser("tests/bench/growth_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="of which the median is taken (10)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/growth_bench: needs root, as kvedge standalone does\n")
        return 5
    report, load = Report(), os.getloadavg()[0]
    directory = Path(tempfile.mkdtemp(prefix="kvbench-"))
    try:
        with guest_box(directory, f"10.93.{os.getpid() % 256}.0/24", _IMAGE) as box:
            box.apply(hotplug_vm(_NAME, _IMAGE))
            guest = HotplugGuest(box, _NAME)
            box.wait_phase(_NAME, "Running")
            guest.wait_answer()
            for kind, mode in _MODES.items():
                box.apply(a_claim(kind, volumeMode=mode))
                guest.add(kind)
            guest.wait_ready(*_MODES)
            answer = _seconds_of_an_answer(guest, options.runs)
            for kind in _MODES:
                steps = [_grow(guest, kind, number) for number in range(1, options.runs + 1)]
                claim, seen = zip(*steps, strict=True)
                report.add(Row(f"growth until the claim has it, a {kind}", "s", median(claim)))
                report.add(Row(f"then until the guest sees it, a {kind}", "s", median(seen), answer, Goal(most=1.0)))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report.notes.append(f"medians of {options.runs}, {_STEP_MIB} MiB more each; reference: an answer of the guest")
    report.notes.append(f"load {load:.1f} before")
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _seconds_of_an_answer(guest: HotplugGuest, runs: int) -> float:
    taken = []
    for _ in range(runs):
        begun = time.monotonic()
        guest.run("cat /sys/block/sda/size")
        taken.append(time.monotonic() - begun)
    return median(taken)


def _grow(guest: HotplugGuest, claim: str, number: int) -> tuple[float, float]:
    """Seconds until the claim's status has its size, and from then until the guest sees a larger disk."""
    client = guest.box.client
    device = Path(guest.disk(claim)).name
    before = int(guest.run(f"cat /sys/block/{device}/size"))
    wanted = (_FIRST_MIB + number * _STEP_MIB) * _MIB
    change = {"spec": {"resources": {"requests": {"storage": str(wanted)}}}}

    def has_grown() -> bool:
        capacity = client.get(PersistentVolumeClaim, "default", claim).status.capacity
        return parse_bytes(capacity.get("storage", "0")) >= wanted

    begun = time.monotonic()
    client.patch(PersistentVolumeClaim, "default", claim, MergePatch(change))
    wait_until(has_grown, f"claim {claim} has grown", 60, 0.01)
    grown = time.monotonic()
    wait_until(lambda: int(guest.run(f"cat /sys/block/{device}/size")) > before, "the guest sees it", 60, 0.01)
    return grown - begun, time.monotonic() - grown


if __name__ == "__main__":
    sys.exit(main())
