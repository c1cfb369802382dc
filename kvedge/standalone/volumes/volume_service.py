"""The storage of one box as a service: it makes its classes, binds claims, makes volumes and takes them away.

Started by `kvedge standalone` before the node agent: what Pods mount is there before the first of them starts, loop
devices after a reboot included. It knows the API only by its client.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from msgspec import Struct

from kvedge.kube.errors import AlreadyExists, KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import Key, WorkQueue
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import SystemClock
from kvedge.runtime.role import Part, Parts, part, unfailing
from kvedge.runtime.services import ServiceError
from kvedge.standalone.volumes.attachments import Attachments
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.claim_loop import ClaimLoop, Followed
from kvedge.standalone.volumes.claim_users import claims_of
from kvedge.standalone.volumes.copy_jobs import CopyJobs
from kvedge.standalone.volumes.manifest_keeper import ManifestKeeper
from kvedge.standalone.volumes.provisioner import Provisioner
from kvedge.standalone.volumes.snapshot_sources import SnapshotSources
from kvedge.standalone.volumes.snapshots.snapshot_manifest import snapshot_class
from kvedge.standalone.volumes.snapshots.snapshot_parts import SnapshotParts
from kvedge.standalone.volumes.space_watch import SpaceWatch
from kvedge.standalone.volumes.volume_loop import VolumeLoop
from kvedge.standalone.volumes.volume_manifest import DEFAULT_NAME, storage_class
from kvedge.standalone.volumes.volume_words import COMPONENT

log = logging.getLogger(__name__)

_SYNC_SECONDS: Final = 30.0


class VolumeConfig(Struct, frozen=True):
    """The node's name, and the places for volumes."""

    node: str
    places: BoxPlaces


class VolumeService:
    """One box's storage."""

    name = "volumes"

    def __init__(self, config: VolumeConfig, client: KubeClient) -> None:
        self._config = config
        self._client = client
        self._parts = Parts()

    def start(self) -> None:
        """Return when claims are bound and what Pods mount is there.

        Raises:
            ServiceError: with what is wrong and what to do.
        """
        try:
            self._make_classes()
            self._parts = Parts(self._make_parts())
            self._parts.start()
        except KubeError as error:
            raise ServiceError(self.name, str(error)) from error

    def stop(self) -> None:
        """Let go of everything; volumes and what uses them stay."""
        self._parts.stop()

    def failure(self) -> str | None:
        """Why claims are no longer taken care of, or None."""
        return self._parts.failure()

    def _make_classes(self) -> None:
        for place in self._config.places.drivers:
            try:
                self._client.create(storage_class(place, default=place == DEFAULT_NAME))
            except AlreadyExists:
                # An administrator's changes to it stay.
                continue
        with suppress(AlreadyExists):
            self._client.create(snapshot_class(DEFAULT_NAME))

    def _make_parts(self) -> list[Part]:
        client, node = self._client, self._config.node
        events = EventRecorder(client, COMPONENT, node)
        nodes = Informer(client, Node)
        followed = Followed(
            claims=Informer(client, PersistentVolumeClaim),
            volumes=Informer(client, PersistentVolume),
            classes=Informer(client, StorageClass),
            pods=Informer(client, Pod),
            node=lambda: nodes.get("", node),
        )
        copies = CopyJobs()
        sources = SnapshotSources(client)
        provisioner = Provisioner(client, self._config.places, node, followed.volumes.list, copies, sources)
        snapshots = SnapshotParts(client, events, followed, provisioner, copies, SystemClock())
        # After a reboot Pods of before want their volumes before anything else starts.
        attachments = Attachments(self._config.places, followed.volumes.list, events, SystemClock())
        watch = SpaceWatch(
            client,
            events,
            self._config.places,
            node,
            SystemClock(),
            attachments.look,
            followed.volumes.list,
            snapshots.seen.contents.list,
        )
        vms = Informer(client, VirtualMachine)
        keeper = ManifestKeeper(self._config.places, followed.claims, followed.volumes, vms)
        claim_queue, volume_queue = WorkQueue(), WorkQueue()
        claim_loop = ClaimLoop(client, events, followed, provisioner, SystemClock())
        volume_loop = VolumeLoop(client, events, followed, provisioner)
        claims = ReconcileLoop("claims", claim_loop.reconcile, queue=claim_queue)
        volumes = ReconcileLoop("volumes", volume_loop.reconcile, queue=volume_queue)

        def wait_synced() -> None:
            waits = [item.wait_synced for item in (followed.claims, followed.volumes, followed.classes, followed.pods)]
            if not all(wait(_SYNC_SECONDS) for wait in waits):
                raise ServiceError(self.name, f"the API at {client.host} did not list claims and volumes in time")

        def begin() -> None:
            triggers = _Triggers(followed, claim_queue, volume_queue)
            followed.claims.on_change(triggers.on_claim)
            followed.volumes.on_change(triggers.on_volume)
            followed.classes.on_change(triggers.on_class)
            followed.pods.on_change(triggers.on_pod)
            claims.start()
            volumes.start()

        return [
            unfailing("volume events", events),
            part("node list", nodes),
            part("claim list", followed.claims),
            part("volume list", followed.volumes),
            part("class list", followed.classes),
            part("pod list", followed.pods),
            Part("volume lists", wait_synced, needs=("claim list", "volume list", "class list", "pod list")),
            Part("places", attachments.look, needs=("volume lists",)),
            part("volume space", watch.rounds(), "volume snapshots", "volume events"),
            Part("volume copies", stop=copies.stop),
            Part("claims", begin, claims.stop, claims.failure, ("places", "node list", "volume events")),
            *snapshots.parts(),
            part("VM list", vms),
            Part("manifests", keeper.start, keeper.loop.stop, keeper.loop.failure, ("places", "VM list")),
            Part("volumes", stop=volumes.stop, failure=volumes.failure, needs=("claims",)),
        ]


class _Triggers(Struct, frozen=True):
    """What a change of one object means for others."""

    followed: Followed
    claims: WorkQueue
    volumes: WorkQueue

    def on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        known = new or old
        assert known is not None
        self.claims.add(Key(known.metadata.namespace, known.metadata.name))
        name = known.spec.volume_name
        if name:
            self.volumes.add(Key("", name))
        if new is None:
            # Also what was made for it and never named.
            for volume in self.followed.volumes.list():
                ref = volume.spec.claim_ref
                if ref is not None and ref.uid == known.metadata.uid:
                    self.volumes.add(Key("", volume.metadata.name))

    def on_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        known = new or old
        assert known is not None
        self.volumes.add(Key("", known.metadata.name))
        ref = known.spec.claim_ref
        if ref is not None:
            self.claims.add(Key(ref.namespace, ref.name))
        elif new is not None:
            self._retry_waiting()

    def on_class(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None:
            self._retry_waiting()

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        known = new or old
        assert known is not None
        # A Pod that ends may be the last one to use a claim.
        for name in claims_of(known):
            claim = self.followed.claims.get(known.metadata.namespace, name)
            if claim is not None and claim.metadata.deletion_timestamp is not None:
                self.claims.add(Key(known.metadata.namespace, name))

    def _retry_waiting(self) -> None:
        for claim in self.followed.claims.list():
            if claim.status.phase != "Bound":
                self.claims.add(Key(claim.metadata.namespace, claim.metadata.name))
