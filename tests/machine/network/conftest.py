"""What the tests of this folder need of the machine, and the Pod that most of them use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pod_world import PodWorld, pod_world


@pytest.fixture(autouse=True, scope="session")
def _root() -> None:
    if os.geteuid() != 0:
        pytest.fail("these tests make network namespaces: run them as root")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PodWorld]:
    """A bound Pod and its guest, on a node network of their own."""
    with pod_world(tmp_path) as made:
        yield made
