"""Measures an import of a qcow2 by HTTP against `qemu-img convert` of the local file, and the worker's memory.

    python -m tests.bench.import_bench [--runs 5] [--gib 2] [--directory /var/tmp]

Needs `qemu-img`, no root. Server and worker are processes of their own on loopback; both sides have the result on disk
when they end. `--directory` says on which disk.
"""

from __future__ import annotations

import argparse
import filecmp
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import psutil

from tests.bench.process_memory import memory_of
from tests.bench.report import Goal, Report, Row, median

_SERVER: Final = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[1] + self.path, 'rb') as image:
            size = os.fstat(image.fileno()).st_size
            self.send_response(200)
            self.send_header('Content-Length', str(size))
            self.end_headers()
            self.wfile.flush()
            position = 0
            while position < size:
                position += os.sendfile(self.connection.fileno(), image.fileno(), position, 1 << 24)
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
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
# What a guest's disk holds: a part of it text and programs, a part packed already, and holes.
_FILLED: Final = 0.6


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
    return 1 if any(row.met is False for row in report.rows) else 0


def _measure(folder: Path, kind: str, words: list[str], options: argparse.Namespace, report: Report) -> None:
    size = options.gib << 30
    image = folder / "image.qcow2"
    _make(folder / "raw", size)
    subprocess.run(["qemu-img", "convert", *words, "-f", "raw", "-O", "qcow2", folder / "raw", image], check=True)
    (folder / "raw").unlink()
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}/image.qcow2"
    ours, theirs, memory = [], [], 0.0
    try:
        # The first one finds cold caches.
        for number in range(options.runs + 1):
            with tempfile.TemporaryDirectory(dir=folder) as claim:
                local = Path(claim, "local")
                convert = ["qemu-img", "convert", "-t", "writeback", "-f", "qcow2", "-O", "raw", image, local]
                begun = time.perf_counter()
                subprocess.run(convert, check=True)
                taken = time.perf_counter() - begun
                begun = time.perf_counter()
                worker = subprocess.Popen([sys.executable, "-c", _WORKER, url, claim, str(size)])
                memory = max(memory, _peak(worker))
                if worker.returncode:
                    raise SystemExit("the import failed")
                if number:
                    theirs.append(taken)
                    ours.append(time.perf_counter() - begun)
                elif not filecmp.cmp(local, Path(claim, "disk.img"), shallow=False):
                    raise SystemExit("the import is not what qemu-img makes")
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
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


def _make(path: Path, size: int) -> None:
    chance = random.Random(7)
    packed = chance.randbytes(8 << 20)
    words = Path(sys.executable).resolve().read_bytes()[: 8 << 20]
    with path.open("wb") as disk:
        disk.truncate(size)
        for start in range(0, size, 8 << 20):
            if chance.random() < _FILLED:
                disk.seek(start)
                disk.write(chance.choice((packed, words)))


if __name__ == "__main__":
    sys.exit(main())
