"""The word beside an image that is no disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.storage.arriving_mark import ARRIVING, read_arriving
from kvedge.storage.beneath import hold_directory


@pytest.mark.parametrize(
    ("content", "found"),
    [(None, []), (b"u m-1\n", ["u", "m-1"]), (b"", ["?"]), (b"\xff" * 4096, ["\ufffd" * 256])],
    ids=["none", "as it is written", "cut short by a crash", "of somebody else"],
)
def test_whatever_lies_there_says_that_the_image_is_no_disk(
    tmp_path: Path, content: bytes | None, found: list[str]
) -> None:
    if content is not None:
        (tmp_path / ARRIVING).write_bytes(content)
    with hold_directory(tmp_path) as directory:
        assert read_arriving(directory) == found


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ARRIVING).symlink_to("/etc/passwd")
    with hold_directory(tmp_path) as directory, pytest.raises(OSError, match="symbolic links"):
        read_arriving(directory)
