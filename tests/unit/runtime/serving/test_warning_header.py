"""Warnings beside an answer."""

from __future__ import annotations

from kvedge.runtime.serving.warning_header import warning_value


def test_a_warning_is_quoted_and_holds_no_control_characters() -> None:
    assert warning_value('no "zone" \\ here\r\nSet-Cookie: x') == '299 - "no \\"zone\\" \\\\ here  Set-Cookie: x"'
