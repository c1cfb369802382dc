"""Frames as a pcap file."""

from __future__ import annotations

import struct

from kvedge.network.insight.pcap_message import LONGEST_FRAME, PcapFile


def test_a_file_has_libpcaps_header_and_one_before_each_frame() -> None:
    found = PcapFile(1000)
    assert found.add(1.5, b"frame", 5)
    assert found.add(2.25, b"x" * 3, 900)
    content = found.content()
    assert struct.unpack_from("<IHHiIII", content) == (0xA1B2C3D4, 2, 4, 0, 0, LONGEST_FRAME, 1)
    assert struct.unpack_from("<IIII", content, 24) == (1, 500_000, 5, 5)
    assert content[40:45] == b"frame"
    assert struct.unpack_from("<IIII", content, 45) == (2, 250_000, 3, 900)
    assert len(content) == 24 + 16 + 5 + 16 + 3


def test_a_file_never_grows_beyond_its_size() -> None:
    found = PcapFile(24 + 2 * (16 + 10))
    assert [found.add(0.0, b"x" * 10, 10) for _ in range(3)] == [True, True, False]
    assert len(found.content()) == 24 + 2 * (16 + 10)


def test_a_frame_that_is_too_long_is_cut_and_says_how_long_it_was() -> None:
    found = PcapFile(1 << 20)
    assert found.add(0.0, b"x" * (LONGEST_FRAME + 9), LONGEST_FRAME + 9)
    assert struct.unpack_from("<IIII", found.content(), 24)[2:] == (LONGEST_FRAME, LONGEST_FRAME + 9)
