"""Which VLANs a trunk has: what is written, in which words, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.network.lan.vlan_trunk import (
    MOST_RANGES,
    Trunk,
    TrunkError,
    trunk_document,
    trunk_of_document,
    trunk_of_text,
    trunk_text,
    vlans_of,
)


@pytest.mark.parametrize(
    ("text", "trunk"),
    [("10", ((10, 10),)), ("20-30, 10", ((10, 10), (20, 30))), ("1-1024", ((1, 1024),)), ("4094", ((4094, 4094),))],
)
def test_a_trunk_is_ranges_in_order_and_has_two_ways_to_be_written(text: str, trunk: Trunk) -> None:
    assert trunk_of_text(text) == trunk
    assert trunk_of_text(trunk_text(trunk)) == trunk
    assert trunk_of_document(trunk_document(trunk)) == trunk


def test_each_vlan_is_named_once() -> None:
    assert list(vlans_of(((10, 10), (20, 22)))) == [10, 20, 21, 22]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is neither a VLAN nor a range"),
        ("x", "'x' is neither a VLAN nor a range"),
        ("10-", "'10-' is neither"),
        ("0", "0-0 is no range of VLANs, which are 1 to 4094"),
        ("4090-4095", "4090-4095 is no range of VLANs"),
        ("30-20", "30-20 is no range of VLANs"),
        ("10,5-12", "VLAN 10 is there twice"),
        ("1-1025", "more than 10 ranges or 1024 VLANs"),
        (",".join(str(2 * n) for n in range(1, MOST_RANGES + 2)), "more than 10 ranges"),
    ],
)
def test_what_is_no_trunk_is_refused(text: str, said: str) -> None:
    with pytest.raises(TrunkError, match=said):
        trunk_of_text(text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (7, "this is no list"),
        ([7], r"\[0\] has neither id nor minID and maxID"),
        ([{}], r"\[0\] has neither id"),
        ([{"id": 1}, {"minID": 3}], r"\[1\] has neither id nor minID and maxID as whole numbers"),
        ([{"id": True}], r"\[0\] has neither id nor minID and maxID as whole numbers"),
        ([{"id": 1, "maxID": 3}], r"\[0\] has id beside minID and maxID"),
        ([{"vid": 1}], r"\[0\] has neither id"),
        ([{"id": 1}] * 2, "VLAN 1 is there twice"),
        ([{"id": number} for number in range(1, 5000, 2)], "more than 10 ranges"),
    ],
)
def test_what_is_no_list_of_ranges_is_refused(value: Any, said: str) -> None:
    with pytest.raises(TrunkError, match=said):
        trunk_of_document(value)
