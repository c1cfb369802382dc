"""An end to a whole run that takes too long, so that its log tells what was wrong: a plugin of pytest.

`tests/run` says in $TESTS_RUN_END, in seconds since the epoch, when a whole run has to be over. Whatever is being
tested then fails by its timeout; each process fails the next test and ends, taking down what it has set up; and the
summary names what was not run any more, by its file. A process that does not end is ended.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Generator
from types import FrameType
from typing import Final

import pytest

VARIABLE: Final = "TESTS_RUN_END"
# For the tests' processes to take down clusters and boxes.
_TO_TAKE_DOWN_SECONDS: Final = 240.0
_OVER: Final = "the time of the whole run is over"


class RunEnd:
    """The plugin; one in each of pytest's processes."""

    def __init__(self, config: pytest.Config, end: float) -> None:
        self._config = config
        self._end = end
        self._reported: set[str] = set()

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Have it in a run that has an end."""
        if end := os.environ.get(VARIABLE):
            config.pluginmanager.register(cls(config, float(end)))

    def pytest_sessionstart(self) -> None:
        """Called by pytest: the process that shows the results ends itself, where others hang."""
        if self._config.getoption("numprocesses", None):
            signal.signal(signal.SIGALRM, _stop)
            signal.setitimer(signal.ITIMER_REAL, max(1.0, self._end + _TO_TAKE_DOWN_SECONDS - time.time()))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Called by pytest around each test, before pytest-timeout asks how long it may take."""
        left = max(1.0, self._end - time.time())
        marker = item.get_closest_marker("timeout")
        usual = marker.args[0] if marker else float(item.config.getini("timeout") or left)
        if left < usual:
            item.add_marker(pytest.mark.timeout(left), append=False)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Called by pytest before each test, and before each further try of it."""
        if time.time() >= self._end:
            item.session.shouldfail = _OVER
            pytest.fail(f"not run: {_OVER}", pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each part of a test."""
        self._reported.add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Called by pytest at the end, in the process that shows the results."""
        if time.time() < self._end:
            return
        scheduler = getattr(self._config.pluginmanager.getplugin("dsession"), "sched", None)
        # What a process by itself has, and what several have agreed on.
        items = [item.nodeid for item in getattr(terminalreporter._session, "items", None) or ()]
        missed = [name for name in getattr(scheduler, "collection", None) or items if name not in self._reported]
        terminalreporter.section(f"{_OVER}: {len(missed)} tests were not run")
        for file, count in sorted(Counter(name.partition("::")[0] for name in missed).items()):
            terminalreporter.write_line(f"{file}: {count}")


def _stop(_number: int, _frame: FrameType | None) -> None:
    pytest.exit(f"{_OVER}, and some tests do not end", returncode=1)
