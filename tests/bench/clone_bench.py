"""Measures a clone of a disk whose claims lie on one file system that shares blocks, against `cp --reflink=never`.

    python -m tests.bench.clone_bench [--gib 10] [--runs 5]

Needs root and `mkfs.xfs`. The file system is a file in `--directory`, mounted; each claim is a mount of its own, as a
worker has them. The source is filled before anything is measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kvedge.resources.types.import_job import CloneSource, ImportJob
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from tests.bench.report import Goal, Report, Row, median, missed

_GIB: Final = 1 << 30
# What a file system keeps for itself, and room for the copy that is compared with.
_ROOM: Final = 2.2
_MOST_SECONDS: Final = 1.0


def main() -> int:
    """Measure; 0 when the goal was met, 1 when it was not."""
    parser = argparse.ArgumentParser("tests/bench/clone_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--gib", type=float, default=10, help="of the disk, all of it written (10)")
    parser.add_argument("--runs", type=int, default=5, help="of which the median is taken (5)")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), help="where the file system lies")
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("mkfs.xfs") is None:
        sys.stderr.write("tests/bench/clone_bench: needs root, and mkfs.xfs (apt-get install xfsprogs)\n")
        return 5
    report, size = Report(), int(options.gib * _GIB)
    with _file_system(options.directory, int(size * _ROOM) + _GIB) as place:
        source, target = _claim(place / "source"), _claim(place / "target")
        _fill(source / "disk.img", size)
        taken = [_clone(source, target, size) for _ in range(options.runs)]
        bare = _copy(source, place / "copy")
    report.add(Row(f"clone of {options.gib:g} GiB that shares blocks", "s", median(taken), bare, Goal(_MOST_SECONDS)))
    report.notes.append(f"median of {options.runs}; reference: one cp --reflink=never of the same file")
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


@contextmanager
def _file_system(directory: Path, size: int) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kvbench-", dir=directory))
    image, place = folder / "xfs.img", folder / "xfs"
    try:
        with image.open("wb") as file:
            file.truncate(size)
        subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", image], check=True)
        place.mkdir()
        subprocess.run(["mount", "-o", "loop", image, place], check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", "--recursive", place], check=True)
    finally:
        shutil.rmtree(folder)


def _claim(place: Path) -> Path:
    place.mkdir()
    subprocess.run(["mount", "--bind", place, place], check=True)
    return place


def _fill(path: Path, size: int) -> None:
    chunk = os.urandom(1 << 20)
    with path.open("wb") as file:
        for position in range(0, size, len(chunk)):
            file.write(chunk[: size - position])
        os.fsync(file.fileno())


def _clone(source: Path, target: Path, size: int) -> float:
    job = ImportJob(name="bench", size=size, clone=CloneSource())
    begun = time.monotonic()
    run_import(job, ImportPlaces(directory=target, source_directory=source), ImportProgress())
    taken = time.monotonic() - begun
    (target / "disk.img").unlink()
    return taken


def _copy(source: Path, into: Path) -> float:
    begun = time.monotonic()
    subprocess.run(["cp", "--reflink=never", source / "disk.img", into], check=True)
    subprocess.run(["sync", "--data", into], check=True)
    return time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
