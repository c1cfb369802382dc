"""What a process holds, and whether it holds more and more: for tests that do one thing many times."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figures:
    """KiB of memory that is its own, open files, and threads."""

    memory: int
    files: int
    threads: int


def figures_of(pid: int) -> Figures:
    """Those of a process, now."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return Figures(int(status["RssAnon"].split()[0]), files, int(status["Threads"]))


def slope(values: Sequence[float]) -> float:
    """By how much they grow from one to the next, by least squares."""
    return statistics.linear_regression(range(len(values)), values).slope
