"""What the tests of this folder need of the machine: root, and a small image's tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.storage.images.image_import import import_file
from kvedge.storage.images.image_store import ImageStore
from tests.support.small_images import busybox_archive


@pytest.fixture(autouse=True, scope="session")
def _root() -> None:
    if os.geteuid() != 0:
        pytest.fail("these tests make namespaces and run containers: run them as root")
    if not Path("/bin/busybox").exists():
        pytest.fail("busybox is missing: apt install busybox")


@pytest.fixture(scope="session")
def busybox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of an image with a shell."""
    path = tmp_path_factory.mktemp("image") / "busybox.tar"
    busybox_archive(path)
    return path


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory, busybox: Path) -> Path:
    """Its file system."""
    return import_file(ImageStore(tmp_path_factory.mktemp("store")), busybox, "busybox")[0].tree
