"""What a file system takes of a claim has one home."""

from __future__ import annotations

import pytest

from kvedge.resources.disks.filesystem_overhead import filesystem_overhead
from kvedge.resources.types.data_volumes import CdiConfig, CdiConfigStatus, FilesystemOverhead


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(None, "0.06", id="no status yet"),
        pytest.param(FilesystemOverhead(), "0.06", id="a status without numbers"),
        pytest.param(FilesystemOverhead(global_="0.1"), "0.1", id="for all classes"),
        pytest.param(FilesystemOverhead(global_="0.1", storage_class={"fast": "0"}), "0", id="for the class"),
    ],
)
def test_the_overhead_is_that_of_the_class_then_that_of_all(told: FilesystemOverhead | None, expected: str) -> None:
    assert filesystem_overhead(CdiConfig(status=CdiConfigStatus(filesystem_overhead=told)), "fast") == expected
