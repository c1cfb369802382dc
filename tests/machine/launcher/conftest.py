"""What the launcher's machine tests share: the node's seed, made once, and Pods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.launcher.capability_probe import probe
from tests.support.launcher_pod import LauncherPod, launcher_pod


@pytest.fixture(autouse=True, scope="session")
def _root() -> None:
    if os.geteuid() != 0:
        pytest.fail("these tests make namespaces and start QEMU as another user: run them as root")


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The node's capabilities for emulated guests."""
    directory = tmp_path_factory.mktemp("seed")
    probe(directory, emulation=True)
    return directory


@pytest.fixture
def pod(tmp_path: Path, seed: Path) -> Iterator[LauncherPod]:
    """A launcher Pod that has just been started."""
    with launcher_pod(tmp_path, seed=seed) as started:
        yield started
