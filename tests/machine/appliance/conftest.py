"""What the tests of the built program need: the file, and a data directory of their own that is not below /tmp."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.built_program import built_program


@pytest.fixture(scope="session")
def program() -> Path:
    """The one file."""
    return built_program()


@pytest.fixture
def data() -> Iterator[Path]:
    """A data directory, as /var/lib/kvedge is one; in memory, as the disk is shared with whatever else runs."""
    directory = Path(tempfile.mkdtemp(prefix="kvedge-test-", dir="/var/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600m,mode=755", "kvedge-test", directory], check=True)
    yield directory
    subprocess.run(["umount", directory], check=True)
    directory.rmdir()
