"""The room of a place: what may be promised to claims, and when somebody has to be warned. Pure.

Called by the provisioner before it makes or grows a volume, and by the space watch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshotContent
from kvedge.resources.types.storage import PersistentVolume
from kvedge.resources.values.quantities import format_bytes
from kvedge.runtime.clock import rfc3339
from kvedge.standalone.volumes.snapshot_words import (
    handle_of,
    is_snapshot_name,
    snapshot_name,
    split_handle,
)
from kvedge.standalone.volumes.volume_manifest import driver_name
from kvedge.storage.volumes.volume_driver import PlaceSpace

CONDITION: Final = "VolumeSpacePressure"
PLACE_MISSING: Final = "PlaceMissing"
# Of a place: from here on somebody should look, and from here on guests are about to be paused.
_WARN_PERCENT: Final = 85
_ALARM_PERCENT: Final = 95
_GIB: Final = 1 << 30
# As the provisioner names its volumes; other directories are somebody else's.
_CLAIM_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST_NAMES: Final = 5
# What a condition says of one place that cannot be used.
_LONGEST_LOSS: Final = 600


def refusal(place: str, space: PlaceSpace, promised: int, wanted: int, overcommit: int) -> str:
    """Why `wanted` bytes more are not promised of a place, of which `promised` are already; empty when they are.

    `overcommit` is in percent of what the place can hold for volumes: what they take now, and what is free.
    """
    limit = (space.free + space.held) * overcommit // 100
    if promised + wanted <= limit:
        return ""
    return (
        f'not enough space in place "{place}": {_gib(wanted)} are wanted and {_gib(promised)} promised already, of '
        f"{_gib(limit)} that may be ({overcommit} % of {_gib(space.free + space.held)}). Delete claims, add a disk, or "
        "raise the setting volume-overcommit"
    )


def orphans(names: Iterable[str], volumes: Iterable[PersistentVolume]) -> frozenset[str]:
    """The volumes of a place, of those that were made for a claim, that no PersistentVolume is made of."""
    known: set[str] = set()
    for volume in volumes:
        known.add(driver_name(volume))
        for source in (volume.spec.local, volume.spec.host_path):
            if source is not None:
                # Somebody may have made an object of his own for a volume that was kept.
                known.update(source.path.split("/"))
    return frozenset(name for name in names if _CLAIM_UID.fullmatch(name) and name not in known)


def orphan_snapshots(place: str, names: Iterable[str], contents: Iterable[VolumeSnapshotContent]) -> frozenset[str]:
    """The snapshots of a place that no VolumeSnapshotContent is made of, nor about to be."""
    known: set[str] = set()
    for content in contents:
        known.add(snapshot_name(content.spec.volume_snapshot_ref.uid))
        parts = split_handle(handle_of(content) or "")
        if parts is not None and parts[0] == place:
            known.add(parts[1])
    return frozenset(name for name in names if is_snapshot_name(name) and name not in known)


def orphans_message(place: str, names: Sequence[str]) -> str:
    """What to tell of them."""
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (
        f'place "{place}" holds volumes and snapshots that no object is made of: {shown}{more}; nobody removes them by'
        " itself: `kvedge recover` makes claims, VMs and VolumeSnapshots of them again; remove those that nobody misses"
    )


def fullness(space: PlaceSpace) -> int:
    """How full a place is, in percent; a pool that cannot note any more what it holds is full, too."""
    return max(_data_percent(space), space.index_percent)


def _data_percent(space: PlaceSpace) -> int:
    return 100 * (space.total - space.free) // space.total if space.total > 0 else 100


def space_reason(percent: int) -> str:
    """The reason for the condition and the event; empty while there is room."""
    if percent >= _ALARM_PERCENT:
        return "VolumeSpaceAlmostUsedUp"
    return "VolumeSpaceLow" if percent >= _WARN_PERCENT else ""


def space_message(place: str, space: PlaceSpace) -> str:
    """What to tell of a place that fills up."""
    percent = fullness(space)
    if space.index_percent > _data_percent(space):
        return (
            f'the metadata of place "{place}" for volumes are {percent} % full, and with them the place: enlarge them '
            "(lvextend --poolmetadatasize +1G GROUP/POOL), or delete snapshots and claims"
        )
    after = "guests that write more are paused" if percent >= _ALARM_PERCENT else "guests are paused when it is full"
    return (
        f'place "{place}" for volumes is {percent} % full, {format_bytes(space.free >> 20 << 20)} are free: {after}; '
        "delete claims, have guests trim (fstrim), or add a disk"
    )


def space_condition(
    spaces: Mapping[str, PlaceSpace], lost: Mapping[str, str], known: JsonObject, now: datetime
) -> JsonObject:
    """The Node's condition of all its places; `known` is the one that it has, or empty.

    `lost` says why the room of a place cannot be seen: a pool whose metadata are damaged takes no writes any more.
    """
    full = {place: space for place, space in spaces.items() if space_reason(fullness(space))}
    worst = max((fullness(space) for space in full.values()), default=0)
    status, stamp = "True" if full else "Unknown" if lost else "False", rfc3339(now)
    told = [space_message(*item) for item in sorted(full.items())]
    told += [f'place "{place}" for volumes: {why}'[:_LONGEST_LOSS] for place, why in sorted(lost.items())]
    message = "; ".join(told) or "places for volumes have room"
    kept = known.get("lastTransitionTime") if known.get("status") == status else None
    return {
        "type": CONDITION,
        "status": status,
        "reason": space_reason(worst) or (PLACE_MISSING if lost else "VolumeSpaceFree"),
        "message": message,
        "lastTransitionTime": kept or stamp,
        "lastHeartbeatTime": stamp,
    }


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
