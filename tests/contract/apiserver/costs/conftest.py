"""One server for all that is measured here: what one case leaves in it, the others do not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.apiserver.costs.measured import MeasuredServer, measured
from tests.support.api_nursery import nursery


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredServer]:
    """The embedded API in a process of its own."""
    directory: Path = tmp_path_factory.mktemp("costs")
    with nursery() as born:
        yield measured(born.start(directory))
