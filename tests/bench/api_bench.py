"""Measures the embedded API alone: load with many writers and watchers, then kill -9 in a thousand rounds.

    python -m tests.bench.api_bench [--seconds 60] [--writers 50] [--watchers 200] [--objects 2000] [--kills 1000]

Needs no root; leaves nothing behind. Exits with 1 when a watcher missed something or an answered write was lost.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.api_load import Load, put_under_load
from tests.bench.kill_rounds import run_rounds
from tests.bench.report import Report, Row, median, percentile
from tests.support.api_nursery import ApiNursery, nursery

_MB = 1_000_000


def main() -> int:
    """Measure both; 0 when every promise was kept."""
    wanted = _arguments()
    report, faults = Report(), list[str]()
    directory = Path(tempfile.mkdtemp(prefix="kvbench-api-"))
    try:
        with nursery() as born:
            if wanted.seconds:
                faults += _load(born, directory / "load", wanted, report)
            if wanted.kills:
                faults += _kills(born, directory / "kills", wanted.kills, report)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report.show()
    for fault in faults[:20]:
        print(f"FAULT {fault}")
    return 1 if faults else 0


def _load(born: ApiNursery, directory: Path, wanted: argparse.Namespace, report: Report) -> list[str]:
    directory.mkdir()
    process = born.start(directory)
    load = Load(wanted.writers, wanted.watchers, wanted.objects, wanted.seconds)
    found = put_under_load(process, load)
    process.kill()
    count = len(found.latencies)
    report.add(Row("answered writes each second", "", (count - found.refused) / load.seconds))
    report.add(Row("a write, p50", "s", median(found.latencies)))
    report.add(Row("a write, p99", "s", percentile(found.latencies, 99)))
    report.add(Row("a write, slowest", "s", max(found.latencies)))
    report.add(Row("events delivered each second", "", found.events / load.seconds))
    report.add(Row("memory before, with all objects and watchers", "MB", found.memory_before / _MB))
    report.add(Row("memory under load, most", "MB", found.memory_most / _MB))
    report.add(Row("memory afterwards", "MB", found.memory_after / _MB))
    report.add(Row("processor time", "s", found.cpu_seconds))
    report.notes.append(
        f"{load.writers} writers and {load.watchers} watchers on {load.objects} objects for {load.seconds:g} s:"
        f" {count} writes, {found.refused} refused, {found.events} events; each watcher was to see every write once"
    )
    refused = [f"{found.refused} writes were refused"] if found.refused else []
    return [*found.faults, *refused]


def _kills(born: ApiNursery, directory: Path, rounds: int, report: Report) -> list[str]:
    directory.mkdir()
    found = run_rounds(born, directory, rounds)
    report.add(Row("start after a kill, median", "s", median(found.restart_seconds)))
    report.add(Row("start after a kill, p99", "s", percentile(found.restart_seconds, 99)))
    report.notes.append(
        f"{found.rounds} kills: {found.answered} answered writes, all there and whole afterwards"
        f"{'' if not found.faults else ', but for the faults below'}; of {found.open} without an answer"
        f" {found.open_kept} were kept"
    )
    return found.faults


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("tests/bench/api_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the load lasts, 0 for none (60)")
    parser.add_argument("--writers", type=int, default=50)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=1000, help="rounds of kill -9, 0 for none (1000)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
