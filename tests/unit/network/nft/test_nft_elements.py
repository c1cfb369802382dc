"""Elements of sets as netlink attributes: read back by pyroute2's own reader of dumps."""

from __future__ import annotations

import sys

import pytest
from pyroute2.netlink.nfnetlink.nftsocket import nft_set_elem_list_msg

from kvedge.network.nft.nft_elements import element_parts
from kvedge.network.nft.nft_tables import Set

LINKS = Set("links", (("ifname", 16),))
WAYS = Set("ways", (("ipv4_addr", 4),), data=(("mark", 4),))
RANGES = Set("ranges", (("integer", 8),), data=(("mark", 4),), ranges=True)
Read = list[tuple[bytes, bytes | None, bool]]


def read(parts: list[bytes]) -> Read:
    """Key, data, and whether it ends a range, of each element."""
    message = nft_set_elem_list_msg()
    message["attrs"] = [("NFTA_SET_ELEM_LIST_TABLE", "t")]
    message.encode()
    listed = b"".join(parts)
    attribute = (4 + len(listed)).to_bytes(2, sys.byteorder) + (0x8003).to_bytes(2, sys.byteorder) + listed
    whole = bytes(message.data) + attribute
    again = nft_set_elem_list_msg(len(whole).to_bytes(4, sys.byteorder) + whole[4:])
    again.decode()
    return [
        (
            each.get_attr("NFTA_SET_ELEM_KEY").get_attr("NFTA_DATA_VALUE"),
            data.get_attr("NFTA_DATA_VALUE") if (data := each.get_attr("NFTA_SET_ELEM_DATA")) else None,
            each.get_attr("NFTA_SET_ELEM_FLAGS") is not None,
        )
        for each in again.get_attr("NFTA_SET_ELEM_LIST_ELEMENTS")
    ]


@pytest.mark.parametrize(
    ("known", "element", "data", "expected"),
    [
        (LINKS, b"eth0".ljust(16, b"\0"), True, [(b"eth0".ljust(16, b"\0"), None, False)]),
        (WAYS, b"abcd1234", True, [(b"abcd", b"1234", False)]),
        (WAYS, b"abcd1234", False, [(b"abcd", None, False)]),
        (RANGES, b"aaaaaaaabbbbbbbb1234", True, [(b"aaaaaaaa", b"1234", False), (b"bbbbbbbb", None, True)]),
    ],
    ids=["a key", "a key and its data", "a key to remove", "a range"],
)
def test_an_element_is_read_as_what_it_was(known: Set, element: bytes, data: bool, expected: Read) -> None:
    assert read(list(element_parts(element, known, data=data))) == expected
