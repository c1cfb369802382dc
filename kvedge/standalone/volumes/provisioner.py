"""Makes volumes for claims and takes them away, with the driver of their place.

Called by the loops. Touches places through their drivers, and PersistentVolumes. Every call may be repeated: a volume
is named after the UID of its claim, on disk as in the API.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from msgspec import Struct

from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import BLOCK, PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.resources.values.quantities import format_bytes
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.claim_sources import snapshot_of, source_claim
from kvedge.standalone.volumes.claim_users import users_of
from kvedge.standalone.volumes.copy_jobs import CopyJobs
from kvedge.standalone.volumes.snapshot_sources import SnapshotSources
from kvedge.standalone.volumes.space_plan import refusal
from kvedge.standalone.volumes.volume_manifest import driver_name, volume_for, volume_size
from kvedge.standalone.volumes.volume_matching import capacity, count_requested, is_for
from kvedge.standalone.volumes.volume_plan import is_ours
from kvedge.storage.volumes.volume_driver import NewVolume, VolumeDriver, VolumeDriverError

log = logging.getLogger(__name__)


class Provisioner(Struct, frozen=True):
    """Make the provisioner of one box, whose node has this name."""

    client: KubeClient
    places: BoxPlaces
    node: str
    # All PersistentVolumes, of which ours are promised.
    volumes: Callable[[], Iterable[PersistentVolume]]
    copies: CopyJobs
    sources: SnapshotSources

    def provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> PersistentVolume | None:
        """A volume for a claim, of its size and mode; None while content for it is being copied.

        Raises:
            VolumeDriverError: it cannot be made.
            KubeError: the API cannot be asked.
        """
        size, name = volume_size(count_requested(claim)), claim.metadata.uid
        if self.copies.is_under_way(name):
            return None
        place, driver = self.places.of_class(storage_class)
        driver.prepare()
        if name not in driver.names():
            wanted_volume = NewVolume(name, size, block=claim.spec.volume_mode == BLOCK)
            self.check_space(place, driver.room_for(size, block=wanted_volume.block))
            if source_claim(claim) or snapshot_of(claim):
                source = self._source(claim, place, driver)

                def copy(keep_on: Callable[[], None]) -> None:
                    driver.clone(source, wanted_volume, lambda: self._keep_copying(claim, place, driver, keep_on))

                self.copies.begin(name, copy)
                return None
            driver.make(wanted_volume)
        path = driver.attach(name)
        wanted = volume_for(
            claim,
            storage_class,
            place=place,
            node=self.node,
            path=path,
            size=_true_size(driver, name, size, block=claim.spec.volume_mode == BLOCK),
            at_once=driver.takes_all_at_once(),
        )
        try:
            made = self.client.create(wanted)
        except AlreadyExists:
            made = self.client.get(PersistentVolume, "", wanted.metadata.name)
            if not is_for(made, claim):
                text = f"persistentvolume {wanted.metadata.name} is there already and belongs to another claim"
                raise VolumeDriverError(text) from None
        facts = {"claim": f"{claim.metadata.namespace}/{claim.metadata.name}", "volume": made.metadata.name}
        log.info("volume made", extra={"facts": facts})
        return made

    def grow(self, volume: PersistentVolume, size: int) -> PersistentVolume:
        """Let a volume hold so many bytes, on disk and then in its object.

        Raises:
            VolumeDriverError: it cannot grow.
            KubeError: the API cannot be asked.
        """
        driver = self.places.of_volume(volume)
        driver.prepare()
        is_block = volume.spec.volume_mode == BLOCK
        more = driver.room_for(size, block=is_block) - _room_for(driver, volume)
        self.check_space(self.places.place_of(volume), more)
        name = driver_name(volume)
        driver.grow(name, size)
        change = {"spec": {"capacity": {"storage": format_bytes(_true_size(driver, name, size, block=is_block))}}}
        patch = at_version(change, volume.metadata.resource_version)
        return self.client.patch(PersistentVolume, "", volume.metadata.name, patch)

    def _keep_copying(
        self, claim: PersistentVolumeClaim, place: str, driver: VolumeDriver, keep_on: Callable[[], None]
    ) -> None:
        """Look again while a copy is made and once before it counts: a user of the source meanwhile would tear it.

        Raises:
            VolumeDriverError: the copy is given up, and what there is of it is erased.
        """
        keep_on()
        meta = claim.metadata
        try:
            found = self.client.get(PersistentVolumeClaim, meta.namespace, meta.name)
            if found.metadata.uid != meta.uid or found.metadata.deletion_timestamp is not None:
                raise VolumeDriverError(f"claim {meta.namespace}/{meta.name} was deleted while its copy was made")
            self._source(claim, place, driver)
        except KubeError as error:
            raise VolumeDriverError(f"the copy is given up, as the API cannot be asked: {error}") from error

    def _source(self, claim: PersistentVolumeClaim, place: str, driver: VolumeDriver) -> str:
        """What the driver calls the volume or the snapshot whose content a claim wants."""
        if snapshot_of(claim):
            return self.sources.find(claim, place, driver)
        namespace, name = claim.metadata.namespace, source_claim(claim)
        try:
            source = self.client.get(PersistentVolumeClaim, namespace, name)
            volume = self.client.get(PersistentVolume, "", source.spec.volume_name or "-")
        except NotFound:
            raise VolumeDriverError(f"source claim {namespace}/{name} is not there, or not bound yet") from None
        if not is_ours(volume) or not is_for(volume, source) or self.places.place_of(volume) != place:
            raise VolumeDriverError(
                f'source claim {namespace}/{name} does not lie in place "{place}": use the class of the source, or a '
                "DataVolume with source.pvc"
            )
        users = users_of(namespace, name, self.client.list(Pod, namespace))
        if users and not driver.shares_blocks():
            raise VolumeDriverError(
                f"source claim {namespace}/{name} is in use by {', '.join(users[:5])}, and its file system cannot "
                "clone a disk at once: stop its VM until the clone is made"
            )
        return driver_name(volume)

    def check_space(self, place: str, wanted: int) -> None:
        """Return when a place may be promised so many bytes more.

        Raises:
            VolumeDriverError: it may not.
        """
        driver = self.places.drivers[place]
        ours = (item for item in self.volumes() if is_ours(item) and self.places.place_of(item) == place)
        promised = sum(_room_for(driver, item) for item in ours)
        space = driver.space()
        # A snapshot never takes more than it does once the blocks that it shares are written anew.
        why = refusal(place, space, promised + space.snapshots, wanted, self.places.overcommit)
        if why:
            raise VolumeDriverError(why)

    def erase(self, volume: PersistentVolume) -> None:
        """Take the data of a volume away whose claim is gone; the API itself is asked whether it is.

        Raises:
            VolumeDriverError: it cannot be taken away, or belongs to a claim.
            Conflict: the volume has changed since it was judged: somebody may have said that its data stay.
            KubeError: the API cannot be asked.
        """
        live = self.client.get(PersistentVolume, "", volume.metadata.name)
        if (live.metadata.uid, live.metadata.resource_version) != (
            volume.metadata.uid,
            volume.metadata.resource_version,
        ):
            raise Conflict(409, "Conflict", f"volume {volume.metadata.name} has changed since it was judged")
        ref = volume.spec.claim_ref
        if ref is not None and ref.uid:
            try:
                claim = self.client.get(PersistentVolumeClaim, ref.namespace, ref.name)
            except NotFound:
                claim = None
            if claim is not None and claim.metadata.uid == ref.uid:
                raise VolumeDriverError(f"claim {ref.namespace}/{ref.name} still has it", "VolumeFailedDelete")
        driver = self.places.of_volume(volume)
        driver.prepare()
        driver.remove(driver_name(volume))
        log.info("volume taken away", extra={"facts": {"volume": volume.metadata.name}})


def _true_size(driver: VolumeDriver, name: str, asked: int, *, block: bool) -> int:
    """How large a volume is: a device may be larger than was asked for, and whoever copies it has to know."""
    return max(asked, driver.usage(name).size) if block else asked


def _room_for(driver: VolumeDriver, volume: PersistentVolume) -> int:
    return driver.room_for(int(capacity(volume)), block=volume.spec.volume_mode == BLOCK)
