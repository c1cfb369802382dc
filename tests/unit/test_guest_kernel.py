# Tests: packaging/guest_kernel.py
"""The kernel of the small guest, unpacked when its disk is made: packed kernels of a few bytes, in each known way."""

from __future__ import annotations

import gzip
import importlib.util
import lzma
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.checkout_clone import REPOSITORY

_PLACE = 0x1000000
# Where its segments are once the kernel has page tables of its own.
_HIGH = 0xFFFFFFFF80000000
_SETUP = 3 * 512
_PACKED_AT = 0x2CC


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    """The module, which is beside the program that it belongs to."""
    spec = importlib.util.spec_from_file_location("guest_kernel", REPOSITORY / "packaging/guest_kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def elf(*segments: tuple[int, bytes], kind: int = 1, cleared: int = 0) -> bytes:
    """A program with these segments, by where they go; it begins at the first, and has a section that it clears."""
    at, headers, content = 64 + 56 * len(segments), b"", b""
    for place, data in segments:
        headers += struct.pack(
            "<IIQQQQQQ", kind, 5, at + len(content), _HIGH + place, place, len(data), len(data), 4096
        )
        content += data
    end = at + len(content)
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    return (
        identity
        + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, segments[0][0], 64, end, 0, 64, 56, len(segments), 64, 1, 0)
        + headers
        + content
        + struct.pack("<IIQQ", 0, 8, 3, _HIGH + cleared).ljust(64, b"\0")
    )


def bz_image(packed: bytes, place: int = _PLACE) -> bytes:
    """A kernel's file: three sectors for real mode, then what unpacks it, in which the packed kernel stands."""
    setup = bytearray(b"S" * _SETUP)
    setup[0x1F1] = 2
    struct.pack_into("<II", setup, 0x248, _PACKED_AT, len(packed))
    struct.pack_into("<Q", setup, 0x258, place)
    return bytes(setup) + b"C" * _PACKED_AT + packed + b"C" * 100


def no_tool(name: str) -> Path:
    raise AssertionError(name)


def lz4(content: bytes) -> bytes:
    """As `lz4 -l` packs a few bytes: one block of literals."""
    assert len(content) >= 15
    length, rest = b"\xf0", len(content) - 15
    while rest >= 255:
        length, rest = length + b"\xff", rest - 255
    block = length + bytes([rest]) + content
    return b"\x02\x21\x4c\x18" + struct.pack("<I", len(block)) + block


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
def test_segments_lie_where_they_belong_behind_the_part_for_real_mode(
    kernels: ModuleType, pack: Callable[[bytes], bytes]
) -> None:
    program = elf((_PLACE, b"text"), (_PLACE + 0x10, b"data"), (_PLACE + 0x20, b"bss\0\0"))
    image = bz_image(pack(program) + struct.pack("<I", len(program)))
    kernel = kernels.unpacked_kernel(image, no_tool)
    assert kernel[:_SETUP] == image[:_SETUP]
    # What is zero at the end is zero after a reset, too, when memory is not.
    assert kernel[_SETUP:] == b"text".ljust(0x10, b"\0") + b"data".ljust(0x10, b"\0") + b"bss\0\0"


@pytest.mark.parametrize(
    ("cleared", "behind", "kept"),
    [
        (_PLACE + 0x28, b"data\0\0\0\0" + bytes(100), 0x28),
        (_PLACE + 0x28, b"data\0\0\0\0" + bytes(99) + b"x", 0x20 + 108),
        (_PLACE + 0x08, b"data\0\0\0\0" + bytes(100), 0x20 + 108),
    ],
    ids=["at the end", "with content behind it", "of another segment"],
)
def test_what_the_kernel_clears_itself_takes_no_place_on_the_disk(
    kernels: ModuleType, cleared: int, behind: bytes, kept: int
) -> None:
    program = elf((_PLACE, b"text and more of it"), (_PLACE + 0x20, behind), cleared=cleared)
    image = bz_image(gzip.compress(program))
    assert len(kernels.unpacked_kernel(image, no_tool)) == _SETUP + kept


def test_what_the_standard_library_cannot_unpack_a_tool_of_the_distribution_does(
    kernels: ModuleType, tmp_path: Path
) -> None:
    asked: list[str] = []
    program = elf((_PLACE, b"the kernel itself"))
    # It is given what is packed without the length that the kernel's build has put behind it.
    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\n[ "$*" = "-d -c" ] && cmp - {tmp_path}/packed && cat {tmp_path}/program\n')
    tool.chmod(0o755)
    packed = lz4(program)
    (tmp_path / "packed").write_bytes(packed)
    (tmp_path / "program").write_bytes(program)

    def find(name: str) -> Path:
        asked.append(name)
        return tool

    image = bz_image(packed + struct.pack("<I", len(program)))
    assert kernels.unpacked_kernel(image, find)[_SETUP:] == b"the kernel itself"
    assert asked == ["lz4"]
    (tmp_path / "packed").write_bytes(b"other")
    with pytest.raises(subprocess.CalledProcessError):
        kernels.unpacked_kernel(image, find)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (bz_image(b"BZh9 and so on"), "packed as 425a68392061 is not known"),
        (bz_image(gzip.compress(b"MZ no kernel")), "no kernel of 64 bits"),
        (bz_image(gzip.compress(elf((_PLACE, b"text"))), _PLACE + 0x200000), "does not begin at 0x1200000"),
        (bz_image(gzip.compress(elf((_PLACE, b"text"), kind=4))), "does not begin at 0x1000000"),
    ],
    ids=["packed in another way", "no program", "for another place", "nothing to load"],
)
def test_another_kernel_is_refused_and_unpacks_itself(kernels: ModuleType, image: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kernels.unpacked_kernel(image, no_tool)
