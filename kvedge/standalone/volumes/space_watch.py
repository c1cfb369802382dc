"""Looks at the places for volumes once a minute, and tells on the Node when one fills up.

Made by the volumes' service. Reads places through their drivers; writes one condition of the Node, and Events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, field

from kvedge.kube.errors import KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import StrategicPatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshotContent
from kvedge.resources.types.storage import PersistentVolume
from kvedge.runtime.clock import Clock
from kvedge.runtime.rounds import Rounds
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.space_plan import (
    CONDITION,
    PLACE_MISSING,
    fullness,
    orphan_snapshots,
    orphans,
    orphans_message,
    space_condition,
    space_message,
    space_reason,
)
from kvedge.storage.volumes.volume_driver import PlaceSpace, VolumeDriver, VolumeDriverError

log = logging.getLogger(__name__)

_PERIOD: Final = 60.0


class SpaceWatch(Struct):
    """Make the watch of one box, whose node has this name."""

    client: KubeClient
    events: EventRecorder
    places: BoxPlaces
    node: str
    clock: Clock
    # Takes up places whose disks have come meanwhile.
    look_for_missing: Callable[[], None]
    # The PersistentVolumes there are.
    volumes: Callable[[], Iterable[PersistentVolume]] = tuple
    # Those of snapshots.
    contents: Callable[[], Iterable[VolumeSnapshotContent]] = tuple
    # The volumes that no object named at the last look, by place, and the text that was told of them.
    _nameless: dict[str, frozenset[str]] = field(default_factory=dict)
    _orphans_told: dict[str, str] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    _written: JsonObject = field(default_factory=dict)

    def rounds(self) -> Rounds:
        """The thread that looks."""
        return Rounds("volume-space", "looking at the room for volumes", _PERIOD, self.look, at_once=True)

    def look(self) -> None:
        """Look at each place once."""
        self.look_for_missing()
        spaces: dict[str, PlaceSpace] = {}
        lost: dict[str, str] = {}
        for place, driver in self.places.drivers.items():
            try:
                spaces[place] = driver.space()
            except VolumeDriverError as error:
                lost[place] = str(error)
                self._tell(place, PLACE_MISSING, lost[place])
                continue
            reason = space_reason(fullness(spaces[place]))
            self._tell(place, reason, space_message(place, spaces[place]))
            self._look_for_orphans(place, driver)
        self._write(space_condition(spaces, lost, self._written, self.clock.now()))

    def _look_for_orphans(self, place: str, driver: VolumeDriver) -> None:
        """A kill can leave a volume whose object was never made, or has gone: it takes room, and nobody knows."""
        try:
            names = driver.names()
            nameless = orphans(names, self.volumes()) | orphan_snapshots(place, names, self.contents())
        except VolumeDriverError:
            # Told when the room is looked at.
            return
        # Twice in a row: a volume is made before its object.
        lasting = sorted(nameless & self._nameless.get(place, frozenset()))
        self._nameless[place] = nameless
        told = orphans_message(place, lasting) if lasting else ""
        if self._orphans_told.get(place, "") == told:
            return
        self._orphans_told[place] = told
        if told:
            self._warn(place, "VolumeWithoutObject", told)

    def _tell(self, place: str, reason: str, message: str) -> None:
        if self._told.get(place, "") == reason:
            return
        self._told[place] = reason
        if reason:
            self._warn(place, reason, message)

    def _warn(self, place: str, reason: str, message: str) -> None:
        log.warning("%s", message, extra={"facts": {"place": place}})
        # Events of a Node carry its name as the UID, as those of a kubelet do.
        node = Node(metadata=ObjectMeta(name=self.node, uid=self.node))
        self.events.record(node, "Warning", reason, message)

    def _write(self, condition: JsonObject) -> None:
        keys = ("status", "reason", "message")
        if self._written and all(condition[key] == self._written[key] for key in keys):
            return
        try:
            # Strategic: the node agent has conditions of its own on the Node.
            patch = StrategicPatch({"status": {"conditions": [condition]}})
            self.client.patch(Node, "", self.node, patch, "status")
        except KubeError as error:
            # At the first start there is no Node yet.
            log.debug("%s not written: %s", CONDITION, error)
            return
        self._written = condition
