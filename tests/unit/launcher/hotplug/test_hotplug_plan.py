"""What is done to a running domain's disks."""

from __future__ import annotations

import pytest

from kvedge.launcher.hotplug.disk_wishes import DiskWish, Wishes
from kvedge.launcher.hotplug.hotplug_plan import coming, plan
from kvedge.launcher.libvirt.domain_facts import DomainDisk

HOTPLUG = "/hotplug"
NONE = Wishes({}, frozenset())


def wish(name: str, *, is_ready: bool = True) -> DiskWish:
    return DiskWish(name, f"{HOTPLUG}/{name}.img", block=False, is_ready=is_ready)


def wishes(*entries: DiskWish, drives: tuple[str, ...] = ()) -> Wishes:
    return Wishes({entry.name: entry for entry in entries}, frozenset(drives))


def disk(name: str, target: str = "sda", device: str = "disk", source: str | None = None) -> DomainDisk:
    return DomainDisk(name, target, device, f"{HOTPLUG}/{name}.img" if source is None else source)


def steps(wanted: Wishes, *present: DomainDisk) -> list[tuple[str, str]]:
    return [(step.action.value, step.name) for step in plan(wanted, present, HOTPLUG)]


def test_what_is_wanted_and_ready_is_attached_and_what_is_not_wanted_is_detached_first() -> None:
    wanted = wishes(wish("new"), wish("kept"), wish("waits", is_ready=False))
    assert steps(wanted, disk("kept"), disk("old")) == [("detach", "old"), ("attach", "new")]


def test_nothing_is_done_when_all_is_as_wanted() -> None:
    assert steps(wishes(wish("a")), disk("a")) == []
    assert steps(NONE) == []


def test_a_permanent_disk_is_never_detached() -> None:
    assert steps(NONE, disk("root", source="/var/run/disks/root.img"), disk("empty", source="")) == []


def test_a_disk_that_is_wanted_but_not_in_the_pod_any_more_stays_in_the_guest() -> None:
    assert steps(wishes(wish("a", is_ready=False)), disk("a")) == []


@pytest.mark.parametrize(
    ("wanted", "source", "expected"),
    [
        (wishes(wish("cd"), drives=("cd",)), "", [("insert", "cd")]),
        (wishes(wish("cd"), drives=("cd",)), "/hotplug/cd", [("insert", "cd")]),
        (wishes(wish("cd"), drives=("cd",)), "/hotplug/cd.img", []),
        (wishes(wish("cd", is_ready=False), drives=("cd",)), "/hotplug/cd.img", []),
        (wishes(drives=("cd",)), "/hotplug/cd.img", [("eject", "cd")]),
        (wishes(drives=("cd",)), "/images/cd.img", []),
        (wishes(drives=("cd",)), "", []),
    ],
    ids=["empty", "another medium", "as wanted", "not there yet", "no volume", "a permanent one", "stays empty"],
)
def test_a_cd_rom_drive_keeps_its_place_and_changes_its_medium(
    wanted: Wishes, source: str, expected: list[tuple[str, str]]
) -> None:
    assert steps(wanted, disk("cd", device="cdrom", source=source)) == expected


def test_disks_come_whose_volumes_are_not_in_the_pod_yet_unless_they_are_drives() -> None:
    wanted = wishes(
        wish("ready"), wish("there"), wish("waits", is_ready=False), wish("cd", is_ready=False), drives=("cd",)
    )
    assert coming(wanted, [disk("there")]) == {"waits"}
    assert coming(NONE, [disk("there")]) == frozenset()
