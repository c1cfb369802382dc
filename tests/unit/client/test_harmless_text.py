"""What a hostile guest has written, on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.client.harmless_text import harmless

CASES = {
    "text stays": (b"Debian GNU/Linux\n\tlogin: ", "Debian GNU/Linux\n\tlogin: "),
    "letters of all languages stay": ("Grüße, 日本語 ✓".encode(), "Grüße, 日本語 ✓"),
    "line ends of a serial console become plain": (b"one\r\ntwo\n\rthree", "one\ntwo\nthree"),
    "colours are left out": (b"\x1b[0;1;31mfailed\x1b[0m", "failed"),
    "the cursor is not moved": (b"\x1b[2J\x1b[1;1Hroot@host:~# \x1b[?1049h", "root@host:~# "),
    "a title is not set": (b"\x1b]0;owned\x07a\x1b]2;owned\x1b\\b", "ab"),
    "the clipboard is not written": (b"\x1b]52;c;cm0gLXJm\x07", ""),
    "a title that never ends takes its line": (b"\x1b]0;owned\nnext", "\nnext"),
    "nothing is asked of the terminal that it would type": (b"\x1bP$q\"p\x1b\\\x1b[6n\x1b[c\x1bZ", ""),
    "character sets are not changed": (b"\x1b(0\x1b)0\x1b#8lqqk\x0e", "lqqk^N"),
    "the terminal is not reset": (b"\x1bcafter", "after"),
    "a lone escape is shown": (b"\x1b\x1b", "^[^["),
    "controls are shown": (b"\x07\x08\x00\x7f\rover", "^G^H^@^?^Mover"),
    "the second set of controls is shown": ("\x9b31m\x9d0;x\x9c".encode(), "\\u009b31m\\u009d0;x\\u009c"),
    "the direction is not turned": ("ab\u202ecd\u2066".encode(), "ab\\u202ecd\\u2066"),
    "what is no text is replaced": (b"\xff\x9b31mx", "\ufffd\ufffd31mx"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_terminal_gets_text_alone(case: str) -> None:
    written, shown = CASES[case]
    assert harmless(written) == shown


@given(
    st.lists(st.sampled_from([b"\x1b", b"[", b"]", b"0;", b"m", b"\x07", b"P", b"\n", b"x", b"\x9b", b"(", b"\xc2"]))
)
def test_whatever_a_guest_writes_no_control_character_comes_through(pieces: list[bytes]) -> None:
    shown = harmless(b"".join(pieces))
    assert all(character.isprintable() or character in "\n\t" for character in shown)


@given(st.binary())
def test_no_bytes_at_all_bring_one_through(data: bytes) -> None:
    assert all(
        character.isprintable() or character in "\n\t \u00a0\u3000" or character.isspace()
        for character in harmless(data)
    )
    assert not set(harmless(data)) & set("\x1b\x07\r\x08\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029")
