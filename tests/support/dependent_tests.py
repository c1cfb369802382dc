"""Tests that build on what the ones before them in their file have left: a plugin of pytest for tests/conftest.py.

`@pytest.mark.incremental`: when one of them has failed, the rest of them in the file are not run, and say which one it
was; each would wait in vain for as long as it may. It may be the mark of a whole file.

All tests of a file are run by one process, which knows what has failed.
"""

from __future__ import annotations

from typing import Final

import pytest

INCREMENTAL: Final = "incremental"


class DependentTests:
    """The plugin; one for each process."""

    def __init__(self) -> None:
        # The first failed one of each file.
        self._failed: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Called by pytest before each test and its fixtures."""
        first = self._failed.get(_file(item.nodeid))
        if first and item.get_closest_marker(INCREMENTAL):
            pytest.skip(f"not run: it builds on {first}, which has failed")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each part of a test."""
        if report.outcome == "failed" and INCREMENTAL in report.keywords:
            self._failed.setdefault(_file(report.nodeid), report.nodeid.partition("::")[2])


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
