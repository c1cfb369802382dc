"""What this folder's tests need of the host, which the unit tier's users may lack."""

from __future__ import annotations

import shutil

import pytest

PROGRAMS = ("zstd", "ssh-keygen")


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")
