# Tests: kvedge/launcher/run/growth_plan.py, kvedge/launcher/run/disk_growth.py
"""Disks of a running guest grow with their claims, and only grow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.launcher.launcher_errors import BadRequest, LibvirtFailed
from kvedge.launcher.libvirt.domain_facts import DiskSize
from kvedge.launcher.run.disk_growth import grow_disks
from kvedge.launcher.run.growth_plan import Growth, Wanted, plan_growth, read_wanted

MIB = 1 << 20


def vmi(*names: str, mode: str = "Filesystem", size: str = "20Mi", source: str = "persistentVolumeClaim") -> bytes:
    sizes = {"requests": {"storage": size}, "capacity": {"storage": size}}
    info = {"volumeMode": mode, "filesystemOverhead": "0", **sizes}
    document: dict[str, Any] = {
        "spec": {
            "domain": {"devices": {"disks": [{"name": name} for name in names]}},
            "volumes": [{"name": name, source: {}} for name in names],
        },
        "status": {"volumeStatus": [{"name": name, "persistentVolumeClaimInfo": info} for name in names]},
    }
    return json.dumps(document).encode()


class PlayedSession:
    """Disks that take the size they are given, but for those that refuse."""

    def __init__(self, refusing: str = "", **sizes: int) -> None:
        self.disks = {name: DiskSize(f"vd{name}", size) for name, size in sizes.items()}
        self.refusing = refusing
        self.resized: list[tuple[str, int]] = []

    def disk_sizes(self, names: frozenset[str]) -> dict[str, DiskSize]:
        return {name: disk for name, disk in self.disks.items() if name in names}

    def resize_disk(self, target: str, size: int) -> None:
        if target == self.refusing:
            raise LibvirtFailed("growing", 1, 1, "no")
        self.resized.append((target, size))
        self.disks[target[2:]] = DiskSize(target, size)


def grow(document: bytes, session: Any) -> tuple[str, ...]:
    return grow_disks(document, session)


def test_a_disk_grows_once_and_then_nothing_is_done() -> None:
    session = PlayedSession(a=10 * MIB)
    assert grow(vmi("a"), session) == ()
    assert grow(vmi("a"), session) == ()
    assert session.resized == [("vda", 20 * MIB)]


def test_a_disk_that_is_larger_than_its_claim_is_not_cut() -> None:
    session = PlayedSession(a=30 * MIB)
    grow(vmi("a"), session)
    assert session.resized == []


def test_a_disk_that_does_not_grow_holds_up_no_other_one() -> None:
    session = PlayedSession(refusing="vda", a=MIB, b=MIB)
    # The guest runs on with its old disk, and whatever else was to be done is done.
    (told,) = grow(vmi("a", "b"), session)
    assert session.resized == [("vdb", 20 * MIB)]
    assert told.startswith("Disk a does not grow to 20971520 bytes with its claim: ")
    assert told.endswith("; a restart of the VM gives the guest the larger disk")


@pytest.mark.parametrize(
    ("wanted", "present", "expected"),
    [
        (Wanted(9, True, False), DiskSize("vda", 4, 8), [Growth("a", "vda", 8)]),
        (Wanted(9, True, False), DiskSize("vda", 8, 8), []),
        (Wanted(9, True, True), DiskSize("vda", 4), [Growth("a", "vda", 9)]),
        (Wanted(0, False, False), DiskSize("vda", 4), []),
        (Wanted(9, False, False), DiskSize("vda", 0), []),
    ],
    ids=["device", "device that has not grown", "layer over a device", "claim without a word", "size not known"],
)
def test_a_device_says_itself_how_large_it_is(wanted: Wanted, present: DiskSize, expected: list[Growth]) -> None:
    assert plan_growth({"a": wanted}, {"a": present}) == expected


def test_a_disk_that_is_not_in_the_domain_is_left_alone() -> None:
    assert plan_growth({"a": Wanted(9, False, False)}, {}) == []


@pytest.mark.parametrize("place", ["volume", "disk"])
def test_a_disk_that_is_only_read_does_not_grow(place: str) -> None:
    document = json.loads(vmi("a"))
    if place == "disk":
        document["spec"]["domain"]["devices"]["disks"][0]["disk"] = {"readonly": True}
    else:
        document["spec"]["volumes"][0]["persistentVolumeClaim"] = {"claimName": "a", "readOnly": True}
    session = PlayedSession(a=MIB)
    grow(json.dumps(document).encode(), session)
    assert session.resized == []


def test_a_cd_rom_does_not_grow() -> None:
    document = json.loads(vmi("a"))
    document["spec"]["domain"]["devices"]["disks"][0]["cdrom"] = {}
    assert read_wanted(json.dumps(document).encode()) == {}


def test_a_claim_that_cannot_be_read_leaves_the_disk_as_it_is() -> None:
    assert read_wanted(vmi("a", size="much")) == {"a": Wanted(0, False, False)}


def test_what_is_no_vmi_is_refused() -> None:
    with pytest.raises(BadRequest):
        read_wanted(b"[1]")
