"""Which files have a test that failed, for the second chance that `tests/run` gives them: a plugin of pytest.

A file's tests share guests, boxes and clusters, so that a test alone cannot be repeated: its file is, from the start,
once nothing else runs. `tests/run` says in $TESTS_FAILED_FILES where the names are to be written, one a line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "TESTS_FAILED_FILES"


class SecondChance:
    """The plugin, in the process that shows the results."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._failed: set[str] = set()

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Have it in a run that is asked for the names."""
        # Runs of pytest that tests begin are not asked.
        if (place := os.environ.pop(VARIABLE, "")) and not hasattr(config, "workerinput"):
            config.pluginmanager.register(cls(Path(place)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each part of a test."""
        if report.failed:
            self._failed.add(report.nodeid.partition("::")[0])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called by pytest for each file that it reads."""
        if report.failed:
            self._failed.add(report.nodeid.partition("::")[0])

    def pytest_sessionfinish(self) -> None:
        """Called by pytest at the end."""
        self._place.write_text("".join(f"{each}\n" for each in sorted(self._failed)))
