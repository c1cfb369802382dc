"""What settings say of ranges of addresses."""

from __future__ import annotations

import pytest

from kvedge.runtime.address_ranges import AddressRanges, address_ranges


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.99.0.0/24", AddressRanges("10.99.0.0/24")),
        ("10.99.0.0/24,fd00::/64", AddressRanges("10.99.0.0/24", "fd00::/64")),
        ("10.99.0.0/24, fd00::/64 ", AddressRanges("10.99.0.0/24", "fd00::/64")),
    ],
)
def test_a_range_or_a_pair_is_read(text: str, expected: AddressRanges) -> None:
    assert address_ranges(text) == expected
    assert address_ranges(",".join(expected.all)) == expected


@pytest.mark.parametrize(
    "text", ["", "fd00::/64", "fd00::/64,10.0.0.0/24", "10.0.0.0/24,", "10.0.0.0/24,10.1.0.0/24", "10.0.0.0/24,a,b"]
)
def test_what_is_no_range_of_each_family_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        address_ranges(text)
