"""What of a stranger's text is shown."""

from __future__ import annotations

import pytest

from kvedge.web.texts.shown_text import showable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web", "web"),
        ("<b>", "<b>"),
        ("a\u202eb", "a\\u202eb"),
        ("\x00", "^@"),
        ("\udcff", "?"),
        ("x" * 300, "x" * 255 + "…"),
    ],
)
def test_it_is_short_and_shows_what_hides(text: str, expected: str) -> None:
    assert showable(text) == expected


def test_a_megabyte_is_cut_before_it_is_worked_on() -> None:
    assert len(showable("\u202e" * 1_000_000)) == 256
