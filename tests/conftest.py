"""Which tests may run side by side: `tests/run` has four processes.

Tests go by the directory to whichever process is free: those of one share servers, a cluster, or are boxes with a range
of addresses each. What takes longest is begun first. Unit tests share nothing beyond their file, and neither do the
whole boxes of tests/machine, so they go file by file, and unit tests last: no process is left with a long directory at
the end.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.support.dependent_tests import DependentTests
from tests.support.quiet_workers import QuietWorker
from tests.support.run_costs import RunCosts
from tests.support.run_end import RunEnd
from tests.support.second_chance import SecondChance

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

_UNIT = "tests/unit/"
_BOXES = "tests/machine"
# A whole run takes as long as the one of these that was begun too late: each takes a process for ten minutes or more.
_LONGEST = (
    "tests/cluster",
    "tests/cluster/storage",
    "tests/machine/appliance",
    "tests/cluster/pods",
    "tests/machine/launcher",
    "tests/machine/agent",
    "tests/machine/volumes",
    "tests/contract/controller",
    "tests/contract/api",
)
# Unit tests that wait for most of a minute, and need no processor for it: begun last, they would be all that is left.
_PATIENT = ("tests/unit/storage/backups/live/test_live_errand.py",)
# Kubernetes' servers, which are a quarter of what a run costs, clean up when they have to: there is memory for it.
os.environ.setdefault("GOGC", "1600")
os.environ.setdefault("GOMEMLIMIT", "1000MiB")
# How long an example takes says more about the machine than about what it tries.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
# What was put right before a test, by its name.
mended: set[tuple[str, str]] = set()


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest at its start, in each of its processes."""
    config.pluginmanager.register(DependentTests())
    RunEnd.register(config)
    SecondChance.register(config)
    config.pluginmanager.register(RunCosts())
    QuietWorker.register(config)


class NumberedTests(list[str]):
    """The names of all tests in their order; a name's number is known without a search."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._numbers = {name: number for number, name in enumerate(names)}

    def index(self, name: str, *_: object) -> int:
        """The number of a test."""
        return self._numbers[name]


class ByDirectory(LoadScopeScheduling):
    """Gives whole directories to processes, some by the file: the longest, then in the order asked for.

    pytest-xdist searches all tests for each one that it gives out, and counts all that are done after each one: with
    sixteen thousand tests that is seconds of a processor.
    """

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Called by pytest-xdist with the tests that a process has found."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = NumberedTests(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Called by pytest-xdist after each test."""
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(work[scope].values()):
            del work[scope]

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        directory = file.rpartition("/")[0]
        return file if file.startswith(_UNIT) or directory == _BOXES else directory

    def _assign_work_unit(self, node: WorkerController) -> None:
        for scope in reversed(_LONGEST + _PATIENT):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Called by pytest to find the tests: what it makes and imports for that is no garbage, and is not looked at."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Called by pytest once it has all tests, in each process that runs some.

    They and what they import stay to the end: a look at all of that for garbage takes seconds, and some tests ask for
    one again and again.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByDirectory:
    """Called by pytest-xdist where it runs tests in several processes."""
    return ByDirectory(config, log)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Called by pytest for each part of a test, with pytest-xdist in the process that shows the results."""
    mended.update((report.nodeid, str(words)) for name, words in report.user_properties if name == "mended")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Called by pytest at the end."""
    if mended:
        terminalreporter.section("what tests had left, and was put right before")
        for nodeid, words in sorted(mended):
            terminalreporter.write_line(f"{nodeid}: {words}")
