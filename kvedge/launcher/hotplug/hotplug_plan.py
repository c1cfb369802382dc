"""What has to be done so that a running domain has the disks that the VMI wants.

Called by `disk_keeper`. Pure: no clock, no libvirt. A disk is ours to take away only where its source lies in the
directory of hotplugged volumes: permanent disks and their media are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from kvedge.launcher.hotplug.disk_wishes import DiskWish, Wishes
from kvedge.launcher.libvirt.domain_facts import DomainDisk
from kvedge.resources.disks.moved_places import is_moved_place


class Action(Enum):
    """What is done to one disk."""

    DETACH = "detach"
    EJECT = "eject"
    ATTACH = "attach"
    INSERT = "insert"


class Step(NamedTuple):
    """One change; `wish` is what shall be there, None for nothing."""

    action: Action
    name: str
    wish: DiskWish | None = None


def plan(wishes: Wishes, present: Iterable[DomainDisk], directory: str) -> list[Step]:
    """All steps, those that free something first; `directory` is where hotplugged volumes are."""
    disks = list(present)
    return sorted(_steps(wishes, disks, directory), key=lambda step: list(Action).index(step.action))


def coming(wishes: Wishes, present: Iterable[DomainDisk]) -> frozenset[str]:
    """The disks that will be attached once their volumes are in the Pod."""
    there = {disk.name for disk in present}
    return frozenset(name for name, wish in wishes.disks.items() if not wish.is_ready) - there - wishes.drives


def _steps(wishes: Wishes, disks: list[DomainDisk], directory: str) -> Iterator[Step]:
    there = {disk.name for disk in disks}
    for disk in disks:
        # A disk that has moved to another claim came there, too, and is no hotplugged one.
        place = disk.source.removeprefix(f"{directory}/")
        comes = place != disk.source and not is_moved_place(place.partition("/")[0])
        wish = wishes.disks.get(disk.name)
        if disk.device != "cdrom":
            if comes and wish is None:
                yield Step(Action.DETACH, disk.name)
        elif wish is None:
            if comes and disk.name in wishes.drives:
                yield Step(Action.EJECT, disk.name)
            elif comes:
                yield Step(Action.DETACH, disk.name)
        elif wish.is_ready and disk.source != wish.path:
            yield Step(Action.INSERT, disk.name, wish)
    for wish in wishes.disks.values():
        # A drive cannot be plugged in while the guest runs: its disk is there from the start, or after the next one.
        if wish.is_ready and wish.name not in there and wish.name not in wishes.drives:
            yield Step(Action.ATTACH, wish.name, wish)
