"""The most memory that each kind of process takes which a box starts for snapshots, backups and restores."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import psutil

from tests.bench.process_memory import memory_of

# Each costs a look at all processes of the machine.
_PAUSE_SECONDS: Final = 0.5
_PROGRAMS: Final = frozenset({"restic", "qemu-img", "qemu-nbd"})


def worker_kind(words: Sequence[str]) -> str:
    """What a process is for, by its command line: a worker's subcommand or a program's name; else empty."""
    if not words:
        return ""
    name = words[0].rpartition("/")[2]
    if name in _PROGRAMS:
        return name
    return next((word for word in words[1:] if word.endswith("-worker") or word == "write-backup"), "")


class WorkerWatch(threading.Thread):
    """Looks at what is below a process until it is stopped; `most` has the largest PSS at one time, in MB, by kind."""

    def __init__(self, above: int) -> None:
        super().__init__(daemon=True)
        self.most: dict[str, float] = {}
        self._above = psutil.Process(above)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Look, again and again."""
        while not self._stopped.wait(_PAUSE_SECONDS):
            self._look()

    def stop(self) -> None:
        """The last look has been."""
        self._stopped.set()
        self.join()

    def _look(self) -> None:
        now: dict[str, list[psutil.Process]] = {}
        for process in self._above.children(recursive=True):
            try:
                kind = worker_kind(process.cmdline())
            except psutil.Error:
                continue
            if kind:
                now.setdefault(kind, []).append(process)
        for kind, processes in now.items():
            self.most[kind] = max(self.most.get(kind, 0.0), memory_of(processes).pss)
