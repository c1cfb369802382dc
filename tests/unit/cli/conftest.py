"""What tests of verbs share: what a verb sets up for its whole process ends with its test."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def same_logs() -> Iterator[None]:
    """A role that a test begins in its own process sends all of that process's records elsewhere."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
