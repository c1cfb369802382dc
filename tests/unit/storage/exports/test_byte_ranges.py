"""Which bytes a client asks for."""

from __future__ import annotations

import pytest

from kvedge.storage.exports.byte_ranges import ByteRange, Unsatisfiable, asked_range, is_same_file

SIZE = 1000


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", None),
        ("bytes=0-0", ByteRange(0, 1)),
        ("bytes=10-19", ByteRange(10, 20)),
        ("bytes = 10 - 19", ByteRange(10, 20)),
        ("bytes=990-", ByteRange(990, 1000)),
        ("bytes=990-5000", ByteRange(990, 1000)),
        ("bytes=-10", ByteRange(990, 1000)),
        ("bytes=-5000", ByteRange(0, 1000)),
        # What is not one range of bytes is left unread: the client gets all.
        ("bytes=-", None),
        ("bytes=20-10", None),
        ("bytes=0-1,5-6", None),
        ("lines=0-1", None),
        ("bytes=0x1-2", None),
        (f"bytes=0-{'9' * 40}", None),
    ],
)
def test_a_range_is_read(header: str, wanted: ByteRange | None) -> None:
    assert asked_range(header, SIZE) == wanted


@pytest.mark.parametrize(("header", "size"), [("bytes=1000-", 1000), ("bytes=-0", 1000), ("bytes=-1", 0)])
def test_what_lies_outside_is_refused(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        asked_range(header, size)


def test_a_client_goes_on_with_the_same_file_only() -> None:
    assert is_same_file("", '"a"', "Mon")
    assert is_same_file('"a"', '"a"', "Mon")
    assert is_same_file("Mon", '"a"', "Mon")
    assert not is_same_file('"b"', '"a"', "Mon")
    assert not is_same_file('W/"a"', '"a"', "Mon")
