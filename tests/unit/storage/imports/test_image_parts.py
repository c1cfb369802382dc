"""An image whose first bytes stay what was checked, and one that ends with a whole sector."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.storage.imports.image_parts import FileParts, PinnedParts, SectorParts


class Watched:
    """An image that has changed since; `asked` has what was read of it."""

    size = 100

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def read_at(self, position: int, size: int) -> bytes:
        self.asked.append((position, size))
        return b"n" * min(size, self.size - position)


@pytest.mark.parametrize(
    ("position", "size", "answer", "asked"),
    [
        (0, 10, b"o" * 10, []),
        (5, 5, b"o" * 5, []),
        (0, 30, b"o" * 10 + b"n" * 20, [(10, 20)]),
        (9, 2, b"on", [(10, 1)]),
        (10, 4, b"nnnn", [(10, 4)]),
        (90, 20, b"n" * 10, [(90, 20)]),
    ],
    ids=["all of the head", "its end", "from its beginning on", "over its edge", "behind it", "at the end"],
)
def test_the_head_is_never_read_again(position: int, size: int, answer: bytes, asked: list[tuple[int, int]]) -> None:
    now = Watched()
    image = PinnedParts(b"o" * 10, now)

    assert (image.size, image.read_at(position, size), now.asked) == (100, answer, asked)


def test_a_file_is_read_where_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    opened = os.open(tmp_path / "x", os.O_RDONLY)
    try:
        assert FileParts(opened, 10).read_at(8, 5) == b"89"
    finally:
        os.close(opened)


@pytest.mark.parametrize(
    ("position", "size", "answer", "asked"),
    [
        (0, 100, b"n" * 100, [(0, 100)]),
        (0, 512, b"n" * 100 + bytes(412), [(0, 100)]),
        (90, 1024, b"n" * 10 + bytes(412), [(90, 10)]),
        (100, 50, bytes(50), []),
        (512, 10, b"", []),
    ],
    ids=["its content", "its only sector", "over its end", "behind its content", "behind its end"],
)
def test_zeros_stand_for_what_the_last_sector_lacks(
    position: int, size: int, answer: bytes, asked: list[tuple[int, int]]
) -> None:
    content = Watched()
    image = SectorParts(content)
    assert (image.size, image.read_at(position, size), content.asked) == (512, answer, asked)


def test_an_image_of_whole_sectors_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"x" * 1024)
    with path.open("rb") as file:
        image = SectorParts(FileParts(file.fileno(), 1024))
        assert (image.size, image.read_at(1000, 100)) == (1024, b"x" * 24)
