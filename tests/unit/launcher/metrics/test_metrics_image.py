"""The image of the disk of metrics: vhostmd's header and the document."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.metrics.metrics_image import IMAGE_BYTES, MOST_BYTES, make_image, write_image


def read(path: Path) -> tuple[bytes, int, bytes]:
    """Signature, whether it is being written, and the document, whose sum is right."""
    image = path.read_bytes()
    assert len(image) == IMAGE_BYTES
    busy, total, length = (int.from_bytes(image[at : at + 4], "big") for at in (4, 8, 12))
    body = image[16 : 16 + length]
    assert sum(body) == total
    return image[:4], busy, body


def test_an_image_has_its_document_behind_a_header(tmp_path: Path) -> None:
    make_image(str(tmp_path / "disk"), "<metrics/>\n")
    assert read(tmp_path / "disk") == (b"mvbd", 0, b"<metrics/>\n")


def test_another_document_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    make_image(str(path), "a long document\n")
    write_image(str(path), "short\n")
    assert read(path) == (b"mvbd", 0, b"short\n")


def test_an_image_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    make_image(str(path), "first\n")
    make_image(str(path), "second\n")
    assert read(path)[2] == b"first\n"


def test_a_document_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    make_image(str(path), "x" * MOST_BYTES)
    with pytest.raises(ValueError, match="more than an image holds"):
        write_image(str(path), "x" * (MOST_BYTES + 1))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    (tmp_path / "disk").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic"):
        write_image(str(tmp_path / "disk"), "x")
