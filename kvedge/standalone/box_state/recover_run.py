"""Looks at the places of a box, and makes anew what the plan of recovery says.

Called by `kvedge recover`, as root on the box, while kvedge runs. Reads places, attaches devices, and makes objects by
the API; may be run again, and goes on where it was ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct

from kvedge.kube.errors import AlreadyExists, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import Namespace
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.standalone.box_state.note_choice import FoundNote
from kvedge.standalone.box_state.recover_plan import FoundVolume, Made, Present, RecoverPlan, plan_recovery
from kvedge.standalone.box_state.recovered_snapshots import FoundSnapshot
from kvedge.standalone.volumes.kept_manifests import read_note
from kvedge.standalone.volumes.space_plan import orphan_snapshots, orphans
from kvedge.standalone.volumes.volume_manifest import PLACE_ANNOTATION, driver_name
from kvedge.storage.volumes.volume_driver import VolumeDriver, VolumeDriverError


class Recovery(Struct, frozen=True):
    """One box that is recovered: its places, and the API that makes the objects."""

    client: KubeClient
    places: Mapping[str, VolumeDriver]
    node: str
    namespace: str

    def plan(self) -> RecoverPlan:
        """What can be made anew.

        Raises:
            KubeError: the API cannot be asked.
        """
        client = self.client
        troubles: list[str] = []
        volumes = client.list(PersistentVolume)
        found: list[FoundVolume] = []
        snapshots: list[FoundSnapshot] = []
        lying: dict[str, Collection[str]] = {}
        notes: list[FoundNote] = []
        for place, driver in self.places.items():
            try:
                names = driver.names()
                found += list(self._look(place, driver, sorted(orphans(names, volumes))))
                kept = list(driver.notes())
            except VolumeDriverError as error:
                troubles.append(f"{error}: nothing of it is recovered; run this again when it is there")
                continue
            lying[place] = names
            for name, content, written in kept:
                note = read_note(content)
                if note is None:
                    troubles.append(f"{driver.where}: note {name} is damaged, or of a newer kvedge: not used")
                else:
                    notes.append(FoundNote(note, place, written))
        # After the places: a content is made before its snapshot is taken.
        contents = client.list(VolumeSnapshotContent)
        for place, names in lying.items():
            for name in sorted(orphan_snapshots(place, names, contents)):
                snapshots.append(FoundSnapshot(name, place, self.places[place].snapshot_facts(name).block))
        # After the volumes: what is made for a claim meanwhile is that claim's.
        claims = client.list(PersistentVolumeClaim)
        present = Present(
            uids={each.metadata.uid for each in claims},
            claims={(each.metadata.namespace, each.metadata.name) for each in claims},
            vms={(each.metadata.namespace, each.metadata.name) for each in client.list(VirtualMachine)},
            snapshots={(each.metadata.namespace, each.metadata.name) for each in client.list(VolumeSnapshot)},
            namespaces={each.metadata.name for each in client.list(Namespace)},
        )
        plan = plan_recovery(found, notes, present, node=self.node, namespace=self.namespace, snapshots=snapshots)
        plan.told[:0] = troubles
        return plan

    def carry_out(self, plan: RecoverPlan, told: Callable[[Made, str], None]) -> None:
        """Make everything; `told` hears of each object, with why it could not be made.

        Raises:
            VolumeDriverError: a device cannot be had.
        """
        for item in plan.make:
            if isinstance(item, PersistentVolume):
                self._attach(item)
            try:
                self.client.create(item)
            except AlreadyExists:
                told(item, "it exists: left alone")
            except KubeError as error:
                told(item, str(error))
            else:
                told(item, "")

    def _look(self, place: str, driver: VolumeDriver, names: list[str]) -> Iterator[FoundVolume]:
        for name in names:
            size, is_block = driver.describe(name)
            path = driver.path(name, block=is_block)
            yield FoundVolume(name, place, path, size, is_block, driver.takes_all_at_once())

    def _attach(self, volume: PersistentVolume) -> None:
        driver = self.places.get(volume.metadata.annotations.get(PLACE_ANNOTATION, ""))
        name = driver_name(volume)
        if driver is not None and name in driver.names():
            driver.attach(name)
