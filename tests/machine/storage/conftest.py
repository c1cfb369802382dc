"""What the tests of this folder need of the machine, and a store of their own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kvedge.storage.images.image_store import ImageStore


@pytest.fixture(autouse=True, scope="session")
def _machine() -> None:
    if os.geteuid() != 0:
        pytest.fail("these tests unpack files of several owners: run them as root")
    for program, package in (("qemu-img", "qemu-utils"), ("zstd", "zstd")):
        if shutil.which(program) is None:
            pytest.fail(f"{program} is missing: apt install {package}")


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images")


def left_over(store: ImageStore) -> list[str]:
    """What is half-made in a store."""
    staging = store.root / "staging"
    return sorted(os.listdir(staging)) if staging.is_dir() else []
