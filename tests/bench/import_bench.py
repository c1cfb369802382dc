"""Measures an import of a qcow2 by HTTP against `qemu-img convert` of the local file, and the worker's memory.

    python -m tests.bench.import_bench [--runs 5] [--gib 2] [--directory /var/tmp]

Needs `qemu-img`, no root. Server and worker are processes of their own on loopback; both sides have the result on disk
when they end. `--directory` says on which disk.
"""

from __future__ import annotations

import argparse
import filecmp
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import psutil

from tests.bench.bench_image import make_image, served
from tests.bench.process_memory import memory_of
from tests.bench.report import Goal, Report, Row, median, missed

# The worker without its Pod: it may reach loopback.
_WORKER: Final = """
import sys
from pathlib import Path
from kvedge.resources.types.import_job import HttpSource, ImportJob
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_worker import ImportPlaces, run_import
url, claim, size = sys.argv[1:]
places = ImportPlaces(directory=Path(claim))
job = ImportJob(name='bench', size=int(size), http=HttpSource(url=url))
run_import(job, places, ImportProgress(), ImportDoor(own_host=True))
"""


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    parser = argparse.ArgumentParser("tests/bench/import_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="of which the median is taken (5)")
    parser.add_argument("--gib", type=int, default=2, help="size of the disk (2)")
    parser.add_argument("--directory", default=None, help="on the disk that is to be measured")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="kvbench-", dir=options.directory) as folder:
        for kind, words in {"qcow2": [], "compressed qcow2": ["-c"]}.items():
            _measure(Path(folder), kind, words, options, report)
    report.notes.append(f"medians of {options.runs}; a disk of {options.gib} GiB, on disk at the end of both")
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _measure(folder: Path, kind: str, words: list[str], options: argparse.Namespace, report: Report) -> None:
    size = options.gib << 30
    image = folder / "image.qcow2"
    make_image(image, size, *words)
    ours, theirs, memory = [], [], 0.0
    with served(folder) as url:
        # The first one finds cold caches.
        for number in range(options.runs + 1):
            with tempfile.TemporaryDirectory(dir=folder) as claim:
                local = Path(claim, "local")
                convert = ["qemu-img", "convert", "-t", "writeback", "-f", "qcow2", "-O", "raw", image, local]
                begun = time.perf_counter()
                subprocess.run(convert, check=True)
                taken = time.perf_counter() - begun
                begun = time.perf_counter()
                worker = subprocess.Popen([sys.executable, "-c", _WORKER, f"{url}/{image.name}", claim, str(size)])
                memory = max(memory, _peak(worker))
                if worker.returncode:
                    raise SystemExit("the import failed")
                if number:
                    theirs.append(taken)
                    ours.append(time.perf_counter() - begun)
                elif not filecmp.cmp(local, Path(claim, "disk.img"), shallow=False):
                    raise SystemExit("the import is not what qemu-img makes")
    # 0.9 times the speed is 1.11 times the time.
    goal = Goal(ratio=1 / 0.9)
    report.add(Row(f"import of a {kind} by HTTP (reference: qemu-img)", "s", median(ours), median(theirs), goal))
    report.add(Row(f"its worker, PSS at most ({kind})", "MB", memory, goal=Goal(60)))


def _peak(process: subprocess.Popen[bytes]) -> float:
    """The most that a process and its children take until they end, in MB."""
    most = 0.0
    ended = threading.Event()
    thread = threading.Thread(target=lambda: (process.wait(), ended.set()), name="end")
    thread.start()
    while not ended.wait(0.1):
        try:
            own = psutil.Process(process.pid)
            most = max(most, memory_of([own, *own.children(recursive=True)]).pss)
        except psutil.NoSuchProcess:
            break
    thread.join()
    return most


if __name__ == "__main__":
    sys.exit(main())
