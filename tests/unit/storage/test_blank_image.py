"""Images of zeros in claims, beside what others put there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kvedge.storage import blank_image
from kvedge.storage.beneath import hold_directory
from kvedge.storage.blank_image import MEBIBYTE, fitting_bytes, make_image


@pytest.fixture(params=[True, False], ids=["with hard links", "without hard links"])
def claim(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not request.param:

        def refused(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(blank_image.os, "link", refused)
    return tmp_path


def test_an_image_appears_whole_and_alone(claim: Path) -> None:
    with hold_directory(claim) as root:
        make_image(root, ".staged", 3 * MEBIBYTE)
    assert os.listdir(claim) == ["disk.img"]
    found = os.stat(claim / "disk.img")
    assert (found.st_size, found.st_blocks, found.st_mode & 0o777) == (3 * MEBIBYTE, 0, 0o660)


def test_an_image_that_is_there_is_never_replaced(claim: Path) -> None:
    (claim / "disk.img").write_bytes(b"somebody's data")
    with hold_directory(claim) as root:
        make_image(root, ".staged", MEBIBYTE)
    assert (claim / "disk.img").read_bytes() == b"somebody's data"
    assert os.listdir(claim) == ["disk.img"]


def test_an_image_may_be_a_tenth_smaller_than_wanted_and_no_more() -> None:
    wanted = 100 * MEBIBYTE
    assert fitting_bytes(wanted, wanted) == wanted
    assert fitting_bytes(wanted, 95 * MEBIBYTE + 17) == 95 * MEBIBYTE
    assert fitting_bytes(wanted, 90 * MEBIBYTE - 1) is None
