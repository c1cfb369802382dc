"""Programs of lvm2 are bounded in time, and say what went wrong in their own words."""

from __future__ import annotations

import pytest

from kvedge.storage.volumes.lvm_programs import LvmPrograms, ProgramError


def test_what_a_program_prints_is_handed_on() -> None:
    assert LvmPrograms().run("echo", "one") == "one\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("no-such-program",), "no-such-program is not there: install lvm2 and thin-provisioning-tools"),
        (("sh", "-c", "echo '  Volume group not\n found' >&2; exit 5"), "sh: Volume group not found"),
        (("false",), "false: ended with 1"),
    ],
    ids=["not installed", "with its words", "without a word"],
)
def test_a_program_that_fails_is_told(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(ProgramError, match=text):
        LvmPrograms().run(*words)


def test_a_program_that_does_not_end_is_asked_to_and_told() -> None:
    with pytest.raises(ProgramError, match="sleep did not end within 0 s: is another program of lvm2 at work"):
        LvmPrograms(seconds=0.05).run("sleep", "600")
