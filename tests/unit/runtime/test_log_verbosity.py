# Tests: kvedge/runtime/logs.py
"""KubeVirt's verbosities as levels of our logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kvedge.runtime.logs import set_verbosity


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("kvedge.sometestrole")
    yield found
    found.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("verbosity", "level"), [(0, "WARNING"), (1, "WARNING"), (2, "INFO"), (3, "INFO"), (4, "DEBUG"), (9, "DEBUG")]
)
def test_a_verbosity_is_a_level_of_that_role_only(logger: logging.Logger, verbosity: int, level: str) -> None:
    set_verbosity("sometestrole", verbosity)
    assert logging.getLevelName(logger.level) == level
    assert logging.getLogger("kvedge").level == logging.NOTSET


def test_without_one_the_process_own_level_counts(logger: logging.Logger) -> None:
    set_verbosity("sometestrole", 9)
    set_verbosity("sometestrole", None)
    assert logger.level == logging.NOTSET
