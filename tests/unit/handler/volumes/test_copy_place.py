"""The place of a disk's copy in a claim: no disk until it is whole, and never over something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.handler.volumes import copy_place
from kvedge.handler.volumes.claim_image import ImageRefused, hold_claim_image
from kvedge.storage.arriving_mark import ARRIVING
from kvedge.storage.beneath import hold_directory

WORDS = "vmi-uid vmsnapshot-content-a"


@pytest.fixture(autouse=True)
def _as_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_place, "act_as", lambda uid, gid: None)


def make(claim: Path, words: str = WORDS) -> None:
    with hold_directory(str(claim)) as directory:
        copy_place.make_copy_place(directory, words)


def accept(claim: Path, words: str = WORDS) -> None:
    with hold_directory(str(claim)) as directory:
        copy_place._accept(directory, words)


def is_a_disk(claim: Path, copy: str = "") -> bool:
    try:
        with hold_directory(str(claim)) as directory, hold_claim_image(directory, copy):
            return True
    except ImageRefused:
        return False


def test_an_unfinished_copy_is_a_disk_for_nobody_but_its_maker(tmp_path: Path) -> None:
    make(tmp_path)
    assert (tmp_path / "disk.img").stat().st_mode & 0o777 == 0o660
    assert is_a_disk(tmp_path, WORDS)
    assert not is_a_disk(tmp_path)
    assert not is_a_disk(tmp_path, "vmi-uid another")


def test_a_handler_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / ARRIVING).write_text(f"{WORDS}\n")
    make(tmp_path)
    make(tmp_path)
    assert is_a_disk(tmp_path, WORDS)
    accept(tmp_path)
    accept(tmp_path)
    assert is_a_disk(tmp_path)


def test_a_handler_that_is_killed_while_it_writes_the_word_may_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_args: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path)
    make(tmp_path)
    assert is_a_disk(tmp_path, WORDS)


@pytest.mark.parametrize("mark", [None, "vmi-uid another-copy", "other-vmi vmsnapshot-content-a"])
def test_nothing_is_written_over(tmp_path: Path, mark: str | None) -> None:
    (tmp_path / "disk.img").write_bytes(b"of somebody else")
    if mark is not None:
        (tmp_path / ARRIVING).write_text(mark)
    with pytest.raises(ImageRefused):
        make(tmp_path)
    assert (tmp_path / "disk.img").read_bytes() == b"of somebody else"


def test_another_copy_is_not_accepted_nor_one_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ImageRefused, match="is gone"):
        accept(tmp_path)
    make(tmp_path, "vmi-uid another-copy")
    with pytest.raises(ImageRefused, match="another unfinished copy"):
        accept(tmp_path)
    assert not is_a_disk(tmp_path)


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside, claim = tmp_path / "outside", tmp_path / "claim"
    claim.mkdir()
    outside.write_text(WORDS)
    (claim / ARRIVING).symlink_to(outside)
    with pytest.raises(OSError):  # noqa: PT011 - as the kernel has it
        make(claim)
    assert outside.read_text() == WORDS
    assert not (claim / "disk.img").exists()
