"""What lvm2 says in JSON of volume groups and logical volumes, as types; and which devices it may look at. Pure.

Called by the door to lvm2's programs and by the plan of thin volumes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from kvedge.storage.volumes.volume_driver import VolumeDriverError

GROUP_COLUMNS: Final = "vg_name,vg_uuid,pv_name"
VOLUME_COLUMNS: Final = (
    "vg_uuid,vg_missing_pv_count,lv_name,lv_uuid,lv_size,lv_tags,pool_lv,lv_layout,lv_kernel_minor,lv_suspended,"
    "data_percent,metadata_percent,lv_health_status,lv_check_needed,zero"
)
# A host may have lvm2 say yes and no by numbers.
_WORDS: Final = "report{binary_values_as_numeric=0}"
# Of a device's name, what lvm2's patterns take for themselves; there a point stands for it.
_PLAIN: Final = re.compile(r"[^A-Za-z0-9/_:-]")


class VolumeGroup(Struct, frozen=True):
    """A volume group, and the devices of it that are there."""

    name: str
    uuid: str
    devices: tuple[str, ...]


class LogicalVolume(Struct, frozen=True):
    """One logical volume; `minor` is that of its device, or -1 while it has none. Percents are 0 where unknown. A pool
    that `zeroes` clears each block before it gives it out.
    """

    group_uuid: str
    missing_devices: int
    name: str
    uuid: str
    size: int
    tags: frozenset[str]
    pool: str
    layout: frozenset[str]
    minor: int
    suspended: bool
    data_percent: float
    metadata_percent: float
    health: str
    needs_check: bool
    zeroes: bool


def parse_groups(text: str) -> list[VolumeGroup]:
    """The groups of a report of `vgs`, which has a row for each device of a group.

    Raises:
        VolumeDriverError: it is no such report.
    """
    devices: dict[tuple[str, str], list[str]] = {}
    for row in _rows(text, "vg"):
        known = devices.setdefault((_word(row, "vg_name"), _word(row, "vg_uuid")), [])
        # One that lacks is called [unknown].
        if _word(row, "pv_name").startswith("/"):
            known.append(_word(row, "pv_name"))
    return [VolumeGroup(name, uuid, tuple(sorted(found))) for (name, uuid), found in devices.items()]


def parse_volumes(text: str) -> list[LogicalVolume]:
    """The volumes of a report of `lvs`.

    Raises:
        VolumeDriverError: it is no such report.
    """
    return [
        LogicalVolume(
            group_uuid=_word(row, "vg_uuid"),
            missing_devices=int(_number(row, "vg_missing_pv_count")),
            name=_word(row, "lv_name").strip("[]"),
            uuid=_word(row, "lv_uuid"),
            size=int(_number(row, "lv_size")),
            tags=_words(row, "lv_tags"),
            pool=_word(row, "pool_lv"),
            layout=_words(row, "lv_layout"),
            minor=int(_number(row, "lv_kernel_minor", -1)),
            suspended=_word(row, "lv_suspended") == "suspended",
            data_percent=_number(row, "data_percent"),
            metadata_percent=_number(row, "metadata_percent"),
            health=_word(row, "lv_health_status"),
            needs_check=_word(row, "lv_check_needed") == "check needed",
            zeroes=_word(row, "zero") == "zero",
        )
        for row in _rows(text, "lv")
    ]


def restrict_to(devices: Iterable[str]) -> str:
    """The configuration by which lvm2 looks at these devices and at no other.

    A guest may have a volume group of its own on its disk, also one with the name of ours: such a disk is never looked
    at. Hints of other commands, which had another filter, are not believed.

    >>> restrict_to(["/dev/sdb"])
    'devices{scan_lvs=0 hints="none" filter=["a|^/dev/sdb$|","r|.*|"]} report{binary_values_as_numeric=0}'
    """
    taken = "".join(f'"a|^{_PLAIN.sub(".", each)}$|",' for each in devices)
    return f'devices{{scan_lvs=0 hints="none" filter=[{taken}"r|.*|"]}} {_WORDS}'


def look_at_all() -> str:
    """The configuration by which lvm2 looks for a group on all disks of the host.

    Not on logical volumes nor loop devices, which may be disks of guests.
    """
    return f'devices{{scan_lvs=0 hints="none" filter=["r|^/dev/loop|","a|.*|"]}} {_WORDS}'


def mapper_name(group: str, volume: str) -> str:
    """Device-mapper's name of a logical volume.

    >>> mapper_name("my-ssd", "kvedge-1")
    'my--ssd-kvedge--1'
    """
    return "-".join(part.replace("-", "--") for part in (group, volume))


def _rows(text: str, kind: str) -> list[Mapping[str, object]]:
    try:
        rows = [row for part in json.loads(text)["report"] for row in part.get(kind, [])]
        if not all(isinstance(row, dict) for row in rows):
            raise TypeError
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise VolumeDriverError(f"lvm2 gave no report as JSON: {text[:200]!r}; kvedge needs lvm2 2.03") from error
    return rows


def _word(row: Mapping[str, object], key: str) -> str:
    found = row.get(key, "")
    return found if isinstance(found, str) else ""


def _words(row: Mapping[str, object], key: str) -> frozenset[str]:
    return frozenset(word for word in _word(row, key).split(",") if word)


def _number(row: Mapping[str, object], key: str, default: float = 0) -> float:
    try:
        return float(_word(row, key) or default)
    except ValueError:
        return default
