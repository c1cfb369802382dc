# Tests: kvedge/handler/volumes/claim_image.py, kvedge/handler/volumes/attachment_pods.py
"""How large the image is that a hotplugged claim without one gets."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from kvedge.handler.volumes import claim_image
from kvedge.handler.volumes.attachment_pods import find_attachment_pods
from kvedge.handler.volumes.claim_image import ImageRefused, hold_claim_image, image_size, make_image
from kvedge.resources.types.vmi import ClaimInfo
from kvedge.storage.arriving_mark import ARRIVING
from kvedge.storage.beneath import hold_directory
from kvedge.storage.blank_image import MEBIBYTE

LARGE = 1 << 40


@pytest.mark.parametrize(
    ("request_", "capacity", "free", "expected"),
    [
        ("64Mi", "100Mi", LARGE, 64 * MEBIBYTE),
        ("100Mi", "64Mi", LARGE, 64 * MEBIBYTE),
        ("64Mi", None, LARGE, 64 * MEBIBYTE),
        ("1500k", None, LARGE, MEBIBYTE),
        ("100Mi", None, 95 * MEBIBYTE + 5, 95 * MEBIBYTE),
    ],
    ids=["the request", "the capacity", "no capacity", "cut to whole MiB", "within a tenth"],
)
def test_the_image_is_as_large_as_the_claim(request_: str, capacity: str | None, free: int, expected: int) -> None:
    info = ClaimInfo(requests={"storage": request_}, capacity={"storage": capacity} if capacity else {})
    assert image_size(info, free) == expected


@pytest.mark.parametrize(
    ("info", "free", "words"),
    [
        (ClaimInfo(claim_name="c"), LARGE, "claim c has no size"),
        (ClaimInfo(requests={"storage": "1k"}), LARGE, "at least 1MiB"),
        (ClaimInfo(requests={"storage": "100Mi"}), 80 * MEBIBYTE, "not enough space, demanded size 104857600 B"),
        (ClaimInfo(claim_name="c", requests={"storage": "much"}), LARGE, "the size of claim c"),
    ],
    ids=["unknown", "too small", "no room", "no quantity"],
)
def test_an_image_that_cannot_be_is_refused_with_the_reason(info: ClaimInfo, free: int, words: str) -> None:
    with pytest.raises(ImageRefused, match=words):
        image_size(info, free)


@pytest.mark.parametrize("kind", ["a fifo", "a link", "a file"])
def test_what_lies_where_the_image_is_made_is_removed_and_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(claim_image, "act_as", lambda uid, gid: None)
    other, claim = tmp_path / "other", tmp_path / "claim"
    other.write_bytes(b"of somebody else")
    claim.mkdir()
    staged = claim / ".disk.img.hotplug"
    if kind == "a fifo":
        os.mkfifo(staged)
    elif kind == "a link":
        staged.symlink_to(other)
    else:
        os.link(other, staged)
    with hold_directory(claim) as opened:
        make_image(opened, ClaimInfo(claim_name="c", requests={"storage": "4Mi"}))
    assert os.listdir(claim) == ["disk.img"]
    assert (claim / "disk.img").stat().st_size == 4 * MEBIBYTE
    assert other.read_bytes() == b"of somebody else"


def test_a_pod_that_is_not_here_is_not_looked_for_among_all_processes(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        assert find_attachment_pods(tmp_path, ["pod-1"], stack) == {}


def test_an_unfinished_copy_of_a_disk_is_no_volume(tmp_path: Path) -> None:
    (tmp_path / "disk.img").write_bytes(b"half")
    (tmp_path / ARRIVING).write_text("u m-1\n")
    with hold_directory(tmp_path) as claim:
        with pytest.raises(ImageRefused, match="unfinished copy of a disk of the VMI u"), hold_claim_image(claim):
            pass
        (tmp_path / ARRIVING).unlink()
        with hold_claim_image(claim) as image:
            assert os.fstat(image).st_size == 4
