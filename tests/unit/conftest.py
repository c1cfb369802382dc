"""What unit tests share: a `caplog` that hears the test alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """As pytest's, without what threads log that were there before the test.

    In a run of all tiers a process has had servers and roles of other tests; the last thread of one may try something
    again while a unit test counts what was logged.
    """
    others = set(threading.enumerate()) - {threading.current_thread()}

    def is_of_the_test(_: logging.LogRecord) -> bool:
        return threading.current_thread() not in others

    caplog.handler.addFilter(is_of_the_test)
    yield caplog
    caplog.handler.removeFilter(is_of_the_test)
