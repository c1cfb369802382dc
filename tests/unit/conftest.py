"""What unit tests share: a `caplog` that hears the tests of its own file alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def earlier_threads() -> frozenset[threading.Thread]:
    """The threads that other files have left running."""
    return frozenset(threading.enumerate()) - {threading.current_thread()}


@pytest.fixture
def caplog(
    caplog: pytest.LogCaptureFixture, earlier_threads: frozenset[threading.Thread]
) -> Iterator[pytest.LogCaptureFixture]:
    """As pytest's, without what such threads log.

    In a run of all tiers a process has had servers and roles of other tests; the last thread of one may try something
    again while a unit test counts what was logged.
    """

    def is_of_the_file(_: logging.LogRecord) -> bool:
        return threading.current_thread() not in earlier_threads

    caplog.handler.addFilter(is_of_the_file)
    yield caplog
    caplog.handler.removeFilter(is_of_the_file)
