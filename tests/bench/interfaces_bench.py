"""Measures what more interfaces cost a VM: from its manifest until it runs, with 1, 4 and 16 of them.

    python -m tests.bench.interfaces_bench [--runs 3]

Runs as root. All but the first are on a network of kvedge's own, where nobody but the VMs is. What a guest does with
its interfaces is not measured: it is stopped once it runs.
"""

from __future__ import annotations

import argparse
import copy
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from kvedge.resources.codec import JsonObject
from tests.bench.report import Report, Row, median
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest

_IMAGE: Final = "local/bench:1"
_COUNTS: Final = (1, 4, 16)


def main() -> int:
    """Measure; the reference of each is the VM with one interface."""
    parser = argparse.ArgumentParser("tests/bench/interfaces_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of which the median is taken (3)")
    runs = parser.parse_args().runs
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/interfaces_bench: needs root, as kvedge standalone does\n")
        return 5
    report, directory = Report(), Path(tempfile.mkdtemp(prefix="kvbench-", dir="/var/tmp"))
    box = Box(directory / "data", f"10.92.{os.getpid() % 256}.0/24", log_level="info")
    box.data_dir.mkdir()
    directory.chmod(0o755)
    try:
        box.import_image(build_guest().disk, _IMAGE)
        box.start()
        box.cli("network", "create", "between")
        # The first launcher of a box loads what all others find loaded.
        _measure(box, 1, 1)
        taken = {count: _measure(box, count, runs) for count in _COUNTS}
    finally:
        box.remove()
        shutil.rmtree(directory)
    for count, seconds in taken.items():
        what = f"a VM with {count} interface{'s' if count > 1 else ''}: from its manifest until it runs"
        report.add(Row(what, "s", seconds, taken[_COUNTS[0]]))
    report.notes.append(f"medians of {runs}; load {os.getloadavg()[0]:.1f} at the end")
    report.show()
    return 0


def _measure(box: Box, count: int, runs: int) -> float:
    seconds = []
    for number in range(runs):
        name = f"nics{count}-{number}"
        manifest = _vm(name, count)
        begun = time.monotonic()
        box.apply(manifest)
        vmi = box.wait_phase(name, "Running")
        seconds.append(time.monotonic() - begun)
        assert len(vmi.spec.domain.devices.interfaces) == count
        box.remove_vm(name)
    return median(seconds)


def _vm(name: str, count: int) -> JsonObject:
    made = copy.deepcopy(small_vm(name, _IMAGE))
    spec = made["spec"]["template"]["spec"]
    for number in range(1, count):
        spec["domain"]["devices"]["interfaces"].append({"name": f"net{number}", "bridge": {}})
        spec["networks"].append({"name": f"net{number}", "multus": {"networkName": "between"}})
    return made


if __name__ == "__main__":
    sys.exit(main())
