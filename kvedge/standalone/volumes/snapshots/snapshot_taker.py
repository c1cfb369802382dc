"""Takes snapshots of volumes, finds those that are there, and takes them away, with the driver of their place.

Called by the contents' loop. Touches places through their drivers. Every call may be repeated: a snapshot is named
after the UID of its VolumeSnapshot.

A volume that a guest writes is snapshotted only where the kernel does it at one moment. Elsewhere it is copied, and a
copy during which somebody begins to use the volume is given up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectReference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from kvedge.resources.types.storage import PersistentVolume
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.claim_users import describe_users
from kvedge.standalone.volumes.copy_jobs import CopyJobs
from kvedge.standalone.volumes.snapshot_words import handle_of, make_handle, snapshot_name, split_handle
from kvedge.standalone.volumes.volume_manifest import driver_name
from kvedge.standalone.volumes.volume_plan import is_ours
from kvedge.storage.volumes.volume_driver import SnapshotFacts, VolumeDriver, VolumeDriverError

log = logging.getLogger(__name__)

_MOST_USERS: Final = 5


class StillCopied(Exception):
    """A copy for it is under way, which sees by itself that it is not wanted any more."""


class KeptSnapshot(Struct, frozen=True):
    """A snapshot that is there."""

    handle: str
    facts: SnapshotFacts


class SnapshotTaker(Struct, frozen=True):
    """Make the taker of one box."""

    client: KubeClient
    places: BoxPlaces
    copies: CopyJobs
    # Raises when a place has no room for so many bytes more.
    check_space: Callable[[str, int], None]

    def take(self, content: VolumeSnapshotContent) -> KeptSnapshot | None:
        """The snapshot of a content that was made for a claim; None while it is copied.

        Raises:
            VolumeDriverError: it cannot be taken now.
            KubeError: the API cannot be asked.
        """
        name = snapshot_name(content.spec.volume_snapshot_ref.uid)
        if self.copies.is_under_way(name):
            return None
        volume = self._volume(content)
        place, driver = self.places.place_of(volume), self.places.of_volume(volume)
        driver.prepare()
        if name in driver.names():
            return KeptSnapshot(make_handle(place, name), driver.snapshot_facts(name))
        source = driver_name(volume)
        self.check_space(place, driver.usage(source).used)
        users = self._users(volume)
        # What nobody writes may be copied. Which of the two it is stays so for this attempt.
        at_once = bool(users) and driver.snapshots_at_once(source)
        if not at_once:
            _check_unused(users)

        def copy(keep_on: Callable[[], None]) -> None:
            watched = None if at_once else volume
            driver.snapshot(source, name, lambda: self._keep_on(content, watched, keep_on), at_once=at_once)

        self.copies.begin(name, copy)
        return None

    def find(self, handle: str) -> KeptSnapshot:
        """The snapshot of a handle.

        Raises:
            VolumeDriverError: it is not there.
        """
        driver, name = self._locate(handle)
        if name not in driver.names():
            raise VolumeDriverError(f"snapshot {handle} is not there: it was removed, or lies in a backup")
        return KeptSnapshot(handle, driver.snapshot_facts(name))

    def erase(self, content: VolumeSnapshotContent, others: Iterable[VolumeSnapshotContent]) -> None:
        """Take the data of a content away, unless one of the others has them too.

        Raises:
            StillCopied: not yet.
            VolumeDriverError: it cannot be taken away.
        """
        name = snapshot_name(content.spec.volume_snapshot_ref.uid)
        if self.copies.is_under_way(name):
            raise StillCopied
        handle = handle_of(content)
        if handle is not None:
            if any(handle_of(other) == handle for other in others if other.metadata.uid != content.metadata.uid):
                return
            # A handle that was never ours has nothing here that could be erased.
            found = [self._locate(handle)] if split_handle(handle) is not None else []
        elif content.spec.volume_snapshot_ref.uid:
            # A kill may have come between the snapshot and the word of it.
            found = [(driver, name) for driver in self.places.drivers.values()]
        else:
            found = []
        for driver, each in found:
            driver.prepare()
            if each in driver.names():
                driver.remove(each)
                log.info("snapshot taken away", extra={"facts": {"snapshot": each}})

    def _locate(self, handle: str) -> tuple[VolumeDriver, str]:
        parts = split_handle(handle)
        if parts is None:
            raise VolumeDriverError(f"{handle[:128]!r} is no handle of a snapshot of this box")
        return self.places.of_name(parts[0]), parts[1]

    def _volume(self, content: VolumeSnapshotContent) -> PersistentVolume:
        name = content.spec.source.volume_handle or ""
        try:
            volume = self.client.get(PersistentVolume, "", name or "-")
        except NotFound:
            raise VolumeDriverError(f"volume {name!r} is not there") from None
        if not is_ours(volume):
            raise VolumeDriverError(f"volume {name} was not made by this box's own driver")
        return volume

    def _users(self, volume: PersistentVolume) -> list[str]:
        """The VMs and Pods that use a volume."""
        ref = volume.spec.claim_ref or ObjectReference()
        return describe_users(ref.namespace, ref.name, self.client.list(Pod, ref.namespace)) if ref.name else []

    def _keep_on(
        self, content: VolumeSnapshotContent, watched: PersistentVolume | None, keep_on: Callable[[], None]
    ) -> None:
        """Look again while a snapshot is made, and once before it counts.

        Raises:
            VolumeDriverError: the copy is given up, and what there is of it is erased.
        """
        keep_on()
        ref = content.spec.volume_snapshot_ref
        try:
            found = self.client.get(VolumeSnapshotContent, "", content.metadata.name)
            asked = self.client.get(VolumeSnapshot, ref.namespace, ref.name)
            if found.metadata.deletion_timestamp is not None or asked.metadata.deletion_timestamp is not None:
                raise VolumeDriverError("the snapshot was deleted while it was taken")
            if (found.metadata.uid, asked.metadata.uid) != (content.metadata.uid, ref.uid):
                raise VolumeDriverError("the snapshot was made anew while it was taken")
            if watched is not None:
                _check_unused(self._users(watched))
        except KubeError as error:
            raise VolumeDriverError(f"the copy is given up, as the API cannot be asked: {error}") from error


def _check_unused(users: list[str]) -> None:
    """Return when nobody uses a volume that cannot be had at one moment.

    Raises:
        VolumeDriverError: with who does, and what to do.
    """
    if users:
        verb = "writes" if len(users) == 1 else "write"
        raise VolumeDriverError(
            f"{', '.join(users[:_MOST_USERS])} {verb} this volume, and its place cannot keep it as it is at one"
            " moment: snapshot the VM (VirtualMachineSnapshot) or stop it, and this snapshot is taken"
        )
