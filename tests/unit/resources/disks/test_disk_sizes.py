"""The size to which a disk grows follows its claim, never what is free."""

from __future__ import annotations

import pytest

from kvedge.resources.disks.disk_sizes import choose_grown_bytes
from kvedge.resources.values.quantities import QuantityError

MIB = 1 << 20


@pytest.mark.parametrize(
    ("requests", "capacity", "overhead", "block", "expected"),
    [
        ("20Gi", "20Gi", "0", False, 20 << 30),
        ("20Gi", "10Gi", "0", False, 10 << 30),
        ("10Gi", "20Gi", "0", False, 10 << 30),
        ("100Mi", "100Mi", "0.055", False, 94 * MIB),
        ("100Mi", "100Mi", "0.055", True, 100 * MIB),
        ("100Mi", "100Mi", None, True, 100 * MIB),
        ("100Mi", "100Mi", None, False, 0),
        ("3000000", "3000000", "0", False, 2 * MIB),
    ],
    ids=[
        "as claimed",
        "asked, and not there yet",
        "more than asked for",
        "overhead once",
        "a device",
        "a device of which nothing is said",
        "not known yet",
        "mebibytes",
    ],
)
def test_a_disk_grows_to_what_its_claim_has(
    requests: str, capacity: str, overhead: str | None, block: bool, expected: int
) -> None:
    assert choose_grown_bytes({"storage": requests}, {"storage": capacity}, overhead, block=block) == expected


def test_a_claim_that_has_no_capacity_yet_says_nothing() -> None:
    assert choose_grown_bytes({"storage": "1Gi"}, {}, None, block=False) == 0


def test_an_overhead_that_leaves_nothing_is_none() -> None:
    with pytest.raises(QuantityError):
        choose_grown_bytes({"storage": "1Gi"}, {"storage": "1Gi"}, "1.5", block=False)
