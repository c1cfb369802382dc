"""The program behind `tests/bench/run`: measures part after part on one box of its own, then prints the table."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.bench import parts
from tests.bench.report import Report, missed
from tests.support.box import Box

PARTS = {
    "start": "kvedge standalone until READY, on a new data directory and on one that was used before",
    "idle": "memory of the control plane without any VMI",
    "single": "one VMI, created to Running, against libvirt's createXML of the same document",
    "writes": "API writes per VMI and per VM, by kind and writer",
    "launcher": "memory of one launcher without its QEMU, the only one of this box",
    "burst": "one VMI each 100 ms against libvirt doing the same; memory and CPU with all of them",
    "cli": "kvedge version, help of every verb, get vm and list",
}
# The parts that are compared with something in the same run, and have a goal for the ratio.
COMPARED = ("single", "burst")


def main() -> int:
    """Measure; 0 when every goal was met (with `--check`: every ratio), 1 when one was not."""
    wanted = _arguments()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/run: needs root, as kvedge standalone does\n")
        return 5
    # As Ctrl-C: what was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = Report()
    began, load = time.monotonic(), os.getloadavg()[0]
    with _box() as box:
        for part in PARTS:
            if part in wanted.only:
                print(f"{part}: {PARTS[part]}", file=sys.stderr, flush=True)
                parts.measure(part, box, wanted, report)
    taken, now = time.monotonic() - began, os.getloadavg()[0]
    report.notes.append(
        f"{os.cpu_count()} CPUs; load {load:.1f} before, {now:.1f} at the end; {taken:.0f} s; guests are emulated (TCG)"
    )
    report.show()
    if wanted.json:
        Path(wanted.json).write_text(json.dumps(report.document(), indent=2) + "\n")
    if wanted.check:
        for row in report.rows:
            if row.ratio_met is not None:
                print(f"check: {'met' if row.ratio_met else 'NOT MET'}: {row.what}")
    return 1 if missed(report.rows, by_ratio=wanted.check) else 0


def _arguments() -> argparse.Namespace:
    text = "\n".join(f"  {name:9} {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        "tests/bench/run",
        description="Measures kvedge on this machine against a bare libvirt loop.",
        epilog=f"parts:\n{text}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--vmis", type=int, default=50, metavar="N", help="VMIs of the burst, 1 to 100 (50)")
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="runs of what a median is taken of (7)")
    parser.add_argument("--only", metavar="PARTS", help="parts, with commas between them; all unless --check is given")
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"fail by ratios alone, never by a time or a size; measures {','.join(COMPARED)} unless --only is given",
    )
    parser.add_argument("--json", metavar="FILE", help="write everything that was measured there as well")
    found = parser.parse_args()
    found.only = found.only.split(",") if found.only else list(COMPARED if found.check else PARTS)
    unknown = set(found.only) - PARTS.keys()
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if found.check and not set(COMPARED) & set(found.only):
        parser.error(f"--check judges ratios, which only {', '.join(COMPARED)} have: name one of them with --only")
    if not 1 <= found.vmis <= 100:
        parser.error("--vmis must be between 1 and 100")
    if found.runs < 1:
        parser.error("--runs must be at least 1")
    need = found.vmis * 150 * 1024 * 1024
    if "burst" in found.only and psutil.virtual_memory().available < need:
        parser.error(f"{found.vmis} VMIs need {need >> 20} MiB of free memory here; ask for fewer with --vmis")
    return found


@contextlib.contextmanager
def _box() -> Iterator[Box]:
    directory = Path(tempfile.mkdtemp(prefix="kvbench-"))
    # Two runs at once disturb each other's figures, and nothing else.
    box = Box(directory / "data", f"10.93.{os.getpid() % 256}.0/24", log_level="info")
    box.data_dir.mkdir()
    try:
        yield box
    except BaseException:
        print(box.log_tail(), file=sys.stderr)
        raise
    finally:
        box.remove()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
