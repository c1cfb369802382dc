"""Keeps the volumes of one box where Pods look for them: after a reboot, and when a disk or a pool has come back.

Made by the volumes' service, which has it look once at its start and once a minute. Touches places through their
drivers; records Events of PersistentVolumes.

A place that is away is looked for each minute: its disk may be plugged in again. A volume that is lost in a place that
is there mostly stays so. It is told once, and tried more and more seldom, as each try of a driver runs its programs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, field

from kvedge.kube.events import EventRecorder
from kvedge.resources.types.storage import BLOCK, PersistentVolume
from kvedge.runtime.clock import Clock
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.volume_manifest import driver_name
from kvedge.standalone.volumes.volume_plan import is_ours
from kvedge.storage.volumes.device_links import leads_to_own
from kvedge.storage.volumes.volume_driver import VolumeDriverError

log = logging.getLogger(__name__)

# After the first failure, and at the longest. A little less than whole minutes: the looks come each minute.
_FIRST_WAIT: Final = 55.0
_LONGEST_WAIT: Final = 1800.0
# So that 2 to this power is no large number.
_MOST_DOUBLINGS: Final = 10


class _Loss(Struct):
    """How often a volume was not to be had, and until when it is left alone, by the clock that never jumps."""

    count: int
    until: float


class Attachments(Struct):
    """Make the attachments of one box; nothing has been looked at yet."""

    places: BoxPlaces
    # All PersistentVolumes.
    volumes: Callable[[], Iterable[PersistentVolume]]
    events: EventRecorder
    clock: Clock
    # The places that were there at the last look, and the volumes that were not, by name.
    _present: set[str] = field(default_factory=set)
    _lost: dict[str, _Loss] = field(default_factory=dict)
    # What was told of places and volumes.
    _told: dict[str, str] = field(default_factory=dict)

    def look(self) -> None:
        """Find the places that were away and attach what lies in them, and what is missing in the others."""
        ours = [each for each in self.volumes() if is_ours(each)]
        self._forget(ours)
        by_place: dict[str, list[PersistentVolume]] = {}
        for volume in ours:
            by_place.setdefault(self.places.place_of(volume), []).append(volume)
        for place in by_place.keys() - self.places.drivers.keys():
            for volume in by_place[place]:
                self._attach(volume)
        for place in self.places.drivers:
            self._look_at(place, by_place.get(place, []))

    def _look_at(self, place: str, volumes: list[PersistentVolume]) -> None:
        was_present = place in self._present
        wanted = [each for each in volumes if self._is_due(each)] if was_present else volumes
        if was_present and not wanted:
            return
        try:
            self.places.of_name(place).prepare()
        except VolumeDriverError as error:
            # The other places work, and this one when its disk comes: each look at one that hangs takes long.
            self._present.discard(place)
            self._tell(f"place {place}", error)
            return
        self._present.add(place)
        self._told.pop(f"place {place}", None)
        for volume in wanted:
            self._attach(volume)

    def _is_due(self, volume: PersistentVolume) -> bool:
        """Whether a volume is not where Pods look for it, and is to be tried: somebody may have had its disk away."""
        name = volume.metadata.name
        loss = self._lost.get(name)
        if loss is not None and self.clock.monotonic() < loss.until:
            return False
        driver, is_block = self.places.of_volume(volume), volume.spec.volume_mode == BLOCK
        try:
            path = driver.path(driver_name(volume), block=is_block)
            is_there = path.exists() and (not path.is_symlink() or leads_to_own(path))
        except (VolumeDriverError, OSError):
            is_there = False
        if is_there:
            self._lost.pop(name, None)
            self._told.pop(f"volume {name}", None)
        return not is_there

    def _attach(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        try:
            self.places.of_volume(volume).attach(driver_name(volume))
        except VolumeDriverError as error:
            count = self._lost[name].count + 1 if name in self._lost else 1
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(count - 1, _MOST_DOUBLINGS))
            self._lost[name] = _Loss(count, self.clock.monotonic() + wait)
            if self._tell(f"volume {name}", error):
                self.events.record(volume, "Warning", "VolumeMissing", f"volume cannot be used: {error}")
            return
        if self._lost.pop(name, None) is not None:
            log.info("volume is there again", extra={"facts": {"volume": name}})
        self._told.pop(f"volume {name}", None)

    def _tell(self, what: str, error: VolumeDriverError) -> bool:
        """Say what cannot be used, unless that was the last that was said of it."""
        if self._told.get(what) == str(error):
            return False
        self._told[what] = str(error)
        log.error("volumes cannot be used", extra={"facts": {"what": what, "error": str(error)}})
        return True

    def _forget(self, ours: list[PersistentVolume]) -> None:
        names = {each.metadata.name for each in ours}
        for name in self._lost.keys() - names:
            del self._lost[name]
            self._told.pop(f"volume {name}", None)
