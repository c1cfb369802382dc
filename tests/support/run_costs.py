"""What a run of the tests costs, told at its end by directory: a plugin of pytest for tests/conftest.py.

Processor seconds are those of the tests' process and of all programs that it has run and seen end, so that a server
counts where it is taken down. From when to when tells which directory the others waited for.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

import pytest

PROCESSOR_SECONDS: Final = "processor seconds"
_ROWS: Final = 30
# What costs less than this is of no interest; a few tests by hand get no table.
_LEAST: Final = 30.0


@dataclass
class Cost:
    """Of one directory: processor seconds, and when its first test began and its last one ended."""

    spent: float = 0.0
    begun: float = float("inf")
    ended: float = 0.0

    def add(self, spent: float, begun: float, ended: float) -> None:
        """One more part of a test."""
        self.spent += spent
        self.begun, self.ended = min(self.begun, begun), max(self.ended, ended)


class RunCosts:
    """The plugin; one in each of pytest's processes."""

    def __init__(self) -> None:
        self._spent = _processor_seconds()
        self._costs: dict[str, Cost] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Called by pytest after each part of a test, in the tests' process."""
        report = yield
        now = _processor_seconds()
        # A list of its own: the reports of one test may share theirs.
        report.user_properties = [*report.user_properties, (PROCESSOR_SECONDS, round(now - self._spent, 3))]
        self._spent = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each part of a test, also in the process that shows the results."""
        spent = sum(float(str(value)) for name, value in report.user_properties if name == PROCESSOR_SECONDS)
        self._costs.setdefault(_directory(report.nodeid), Cost()).add(spent, report.start, report.stop)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Called by pytest at the end, in the process that shows the results."""
        total = sum(cost.spent for cost in self._costs.values())
        if total >= _LEAST:
            terminalreporter.section(f"{total:.0f} processor seconds, by directory, and from when to when")
            for line in table(self._costs):
                terminalreporter.write_line(line)


def table(costs: dict[str, Cost]) -> list[str]:
    """A line for each directory, the dearest first."""
    first = min(cost.begun for cost in costs.values())
    rows = sorted(costs.items(), key=lambda item: -item[1].spent)[:_ROWS]
    return [
        f"{cost.spent:7.0f} s {cost.begun - first:6.0f} to {cost.ended - first:5.0f} s  {name}" for name, cost in rows
    ]


def _directory(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("/")[0]


def _processor_seconds() -> float:
    return sum(os.times()[:4])
