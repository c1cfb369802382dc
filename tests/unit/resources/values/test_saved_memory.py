"""By the word of a restore a guest goes on from memory on the disks that belong to it, and on no others."""

from __future__ import annotations

from kvedge.resources.values.saved_memory import RESUME_MEMORY, read_resume, resume_claim, write_resume

DISKS = {"root": "restored-root", "data": "restored-data"}


def test_the_memory_is_found_with_its_disks_in_whatever_order() -> None:
    word = {RESUME_MEMORY: write_resume("memory", DISKS)}
    assert read_resume(word, dict(reversed(DISKS.items()))) == "memory"
    assert resume_claim(word) == "memory"


def test_other_disks_have_no_memory() -> None:
    word = {RESUME_MEMORY: write_resume("memory", DISKS)}
    for others in ({}, {"root": "restored-root"}, {**DISKS, "data": "another"}, {**DISKS, "more": "one"}):
        assert read_resume(word, others) == ""


def test_a_vm_without_the_word_boots() -> None:
    assert read_resume({}, {}) == ""
    assert resume_claim({}) == ""
