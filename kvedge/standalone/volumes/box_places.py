"""The places where one box keeps volumes, by name, each with its driver.

Made by the volumes' service from the settings; asked by the provisioner. Touches nothing by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from kvedge.resources.types.storage import PersistentVolume, StorageClass
from kvedge.runtime.settings import Settings
from kvedge.standalone.volumes.volume_manifest import (
    DEFAULT_NAME,
    GROUP_PARAMETER,
    PLACE_ANNOTATION,
    PLACE_PARAMETER,
    POOL_PARAMETER,
)
from kvedge.storage.volumes.directory_driver import DirectoryDriver
from kvedge.storage.volumes.place_identity import PLACES_MEMORY, PlaceIdentity
from kvedge.storage.volumes.thin_driver import ThinDriver, thin_place
from kvedge.storage.volumes.thin_identity import ThinIdentity
from kvedge.storage.volumes.volume_driver import DEVICES, VolumeDriver, VolumeDriverError


class BoxPlaces(Struct, frozen=True):
    """The drivers by the names of their places."""

    drivers: Mapping[str, VolumeDriver]
    # In percent of what a place can hold: how much may be promised to claims.
    overcommit: int = 200

    def of_class(self, storage_class: StorageClass) -> tuple[str, VolumeDriver]:
        """The place that a class takes its volumes from.

        Raises:
            VolumeDriverError: there is none of that name.
        """
        parameters = storage_class.parameters
        if GROUP_PARAMETER not in parameters:
            return self._find_driver(parameters.get(PLACE_PARAMETER, DEFAULT_NAME))
        where = f"{parameters[GROUP_PARAMETER]}/{parameters.get(POOL_PARAMETER, '')}"
        for name, driver in self.drivers.items():
            if isinstance(driver, ThinDriver) and driver.identity.where == where:
                return name, driver
        raise VolumeDriverError(
            f"no place for volumes is the thin pool {where[:128]}: add it to the setting volume-places "
            "(NAME=lvm-thin:GROUP/POOL)"
        )

    def of_volume(self, volume: PersistentVolume) -> VolumeDriver:
        """Where a volume of ours lies.

        Raises:
            VolumeDriverError: its place is not in the settings any more.
        """
        return self._find_driver(self.place_of(volume))[1]

    def of_name(self, name: str) -> VolumeDriver:
        """The driver of a place.

        Raises:
            VolumeDriverError: there is none of that name.
        """
        return self._find_driver(name)[1]

    def place_of(self, volume: PersistentVolume) -> str:
        """The name of the place in which a volume of ours lies."""
        return volume.metadata.annotations.get(PLACE_ANNOTATION, DEFAULT_NAME)

    def _find_driver(self, name: str) -> tuple[str, VolumeDriver]:
        driver = self.drivers.get(name)
        if driver is None:
            known = ", ".join(sorted(self.drivers))
            raise VolumeDriverError(
                f'there is no place "{name}" for volumes: add it to the setting volume-places (known are {known})'
            )
        return name, driver


def directory_place(path: Path, memory: Path, *, made_here: bool) -> DirectoryDriver:
    """The driver of a place that is a directory; `memory` is where the box remembers which one it is."""
    return DirectoryDriver(PlaceIdentity(path, memory, made_here=made_here), DEVICES)


def drivers_of(settings: Settings) -> dict[str, VolumeDriver]:
    """The drivers of all places of a box."""
    memory, own = settings.state_path / PLACES_MEMORY, settings.data_path / "volumes"
    drivers: dict[str, VolumeDriver] = {DEFAULT_NAME: directory_place(own, memory / DEFAULT_NAME, made_here=True)}
    for name, path in settings.places_of_volumes.items():
        drivers[name] = directory_place(path, memory / name, made_here=False)
    for name, (group, pool) in settings.thin_pools_of_volumes.items():
        drivers[name] = thin_place(name, ThinIdentity(group, pool, memory / name))
    return drivers
