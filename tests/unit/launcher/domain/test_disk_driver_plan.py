"""Cache, io and discard of a disk."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.launcher.domain.context import DiskSource
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.disk_driver_plan import DriverPlan, plan_driver
from kvedge.resources.codec import decode
from kvedge.resources.types.devices import Disk


def _plan(disk: dict[str, Any], source: dict[str, Any] | None = None) -> DriverPlan:
    found = DiskSource(path="/d", format="raw", **(source or {}))
    return plan_driver(decode(Disk, {"name": "d", "disk": {}, **disk}), found, "spec.domain.devices.disks[0]")


@pytest.mark.parametrize(
    ("disk", "source", "cache", "io"),
    [
        ({}, {}, "none", None),
        ({}, {"direct_io_ok": False}, "writethrough", None),
        ({}, {"preallocated": True}, "none", "native"),
        ({}, {"block": True}, "none", "native"),
        ({}, {"preallocated": True, "direct_io_ok": False}, "writethrough", None),
        ({"cache": "writeback"}, {"block": True}, "writeback", None),
        ({"cache": "writethrough"}, {}, "writethrough", None),
        ({"io": "threads"}, {"block": True}, "none", "threads"),
        ({"io": "native"}, {}, "none", "native"),
        ({"shareable": True}, {}, "none", None),
        ({"shareable": False}, {"direct_io_ok": False}, "writethrough", None),
    ],
    ids=[
        "direct I/O where it works",
        "writethrough where it does not",
        "native where every block is allocated",
        "native on a block device",
        "no native without direct I/O",
        "as asked, so no native",
        "as asked",
        "threads as asked",
        "native as asked, even on a sparse file",
        "shareable has no cache",
        "not shareable changes nothing",
    ],
)
def test_cache_and_io_follow_the_disk_and_what_its_file_can_do(
    disk: dict[str, Any], source: dict[str, Any], cache: str, io: str | None
) -> None:
    plan = _plan(disk, source)
    assert (plan.cache, plan.io) == (cache, io)


@pytest.mark.parametrize(
    ("disk", "source", "field"),
    [
        ({"cache": "none"}, {"direct_io_ok": False}, "cache"),
        ({"shareable": True}, {"direct_io_ok": False}, "cache"),
        ({"shareable": True, "cache": "writeback"}, {}, "cache"),
        ({"cache": "unsafe"}, {}, "cache"),
        ({"io": "native"}, {"direct_io_ok": False}, "io"),
        ({"io": "native", "cache": "writeback"}, {}, "io"),
        ({"io": "io_uring"}, {}, "io"),
        ({"errorPolicy": "panic"}, {}, "errorPolicy"),
    ],
)
def test_what_a_file_cannot_do_is_refused_by_its_field(
    disk: dict[str, Any], source: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        _plan(disk, source)
    assert caught.value.field == f"spec.domain.devices.disks[0].{field}"


def test_a_guest_may_give_blocks_back_unless_they_were_allocated_on_purpose() -> None:
    assert _plan({}).discard == "unmap"
    assert _plan({}, {"preallocated": True, "thick": True}).discard is None


def test_a_cdrom_has_nothing_to_discard() -> None:
    disk = decode(Disk, {"name": "d", "cdrom": {}})
    assert plan_driver(disk, DiskSource(path="/d", format="raw"), "x").discard is None


def test_an_empty_drive_has_an_error_policy_and_nothing_else() -> None:
    disk = decode(Disk, {"name": "d", "cdrom": {}})
    assert plan_driver(disk, None, "x") == DriverPlan(None, "stop", None, None)
