"""PPM becomes PNG, in pieces and within limits."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.launcher.run import screen_picture
from kvedge.launcher.run.screen_picture import LARGEST, PIECE, PNG_MAGIC, BadPicture, png_pieces


def ppm(width: int, height: int, pixels: bytes) -> bytes:
    return f"P6\n{width} {height}\n255\n".encode() + pixels


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def read_png(data: bytes) -> tuple[int, int, bytes]:
    """Width, height and pixels of an RGB picture without filters; checks each chunk."""
    assert data.startswith(PNG_MAGIC)
    at, packed, kinds = len(PNG_MAGIC), b"", []
    width = height = 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + body)
        kinds.append(kind)
        if kind == b"IHDR":
            width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", body)
            assert (depth, colour, rest) == (8, 2, [0, 0, 0])
        if kind == b"IDAT":
            packed += body
        at += 12 + size
    assert (kinds[0], kinds[-1], set(kinds[1:-1])) == (b"IHDR", b"IEND", {b"IDAT"})
    rows = zlib.decompress(packed)
    stride = 1 + width * 3
    assert len(rows) == stride * height
    assert set(rows[::stride]) == {0}
    return width, height, b"".join(rows[start + 1 : start + stride] for start in range(0, len(rows), stride))


@given(
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(1, 500),
    st.randoms(use_true_random=False),
)
def test_every_pixel_arrives_however_it_is_cut(width: int, height: int, size: int, random: object) -> None:
    pixels = bytes(random.randrange(256) for _ in range(width * height * 3))  # type: ignore[attr-defined]
    found = b"".join(png_pieces(cut(ppm(width, height, pixels), size)))
    assert read_png(found) == (width, height, pixels)


def test_a_png_is_passed_on_as_it_is() -> None:
    data = PNG_MAGIC + bytes(200_000)
    pieces = list(png_pieces(cut(data, 70_000)))
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= PIECE


def test_what_follows_the_last_pixel_is_left_out() -> None:
    found = b"".join(png_pieces(iter([ppm(1, 1, b"abc") + b"more", b"and more"])))
    assert read_png(found) == (1, 1, b"abc")


WRONG = {
    "nothing": (b"", "the picture is empty"),
    "a few bytes": (b"P6\n1 1", "the picture is empty"),
    "something else": (b"GIF89a" + bytes(100), "the picture is neither PNG nor PPM"),
    "another PPM": (b"P6\n1 1\n65535\n" + bytes(100), "the picture is neither PNG nor PPM"),
    "a header without end": (b"P6\n" + b" " * 10_000, "the picture is neither PNG nor PPM"),
    "too wide": (ppm(99_999, 1, b""), "the picture has 99999 by 1 pixels"),
    "no pixels": (ppm(0, 5, b"") + bytes(9), "the picture has 0 by 5 pixels"),
    "half of it": (ppm(10, 10, bytes(150)), "the picture ends early"),
}


@pytest.mark.parametrize(("data", "text"), WRONG.values(), ids=WRONG)
def test_what_is_no_picture_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(BadPicture) as refused:
        list(png_pieces(cut(data, 1000)))
    assert str(refused.value) == text


def test_a_picture_that_is_too_large_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_picture, "LARGEST", 100_000)
    endless = (PNG_MAGIC if number == 0 else bytes(10_000) for number in range(10**9))
    seen: list[bytes] = []
    with pytest.raises(BadPicture, match="larger than"):
        seen.extend(png_pieces(endless))
    assert sum(map(len, seen)) <= 100_000
    assert LARGEST == 32 << 20
