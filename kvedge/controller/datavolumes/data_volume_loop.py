"""Brings one DataVolume after the other to a claim that is filled.

Run by the controller role where CDI is not installed. Reads from informers, asks :func:`plan_data_volume`, does what it
says in its order, each write against the version that was planned on, and asks running workers for their progress.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kvedge.controller.datavolumes.bare_uploads import as_its_claim, claim_plan, upload_into, user_of
from kvedge.controller.datavolumes.claim_plan import StorageSeen
from kvedge.controller.datavolumes.clone_sources import CloneSources, source_key
from kvedge.controller.datavolumes.creations import Creations
from kvedge.controller.datavolumes.data_volume_plan import (
    plan_data_volume,
)
from kvedge.controller.datavolumes.data_volume_view import (
    CreateClaim,
    CreateWorker,
    DataVolumePlan,
    DataVolumeView,
    DeleteWorker,
    LabelDataVolume,
    PatchClaim,
    PatchStatus,
)
from kvedge.controller.datavolumes.granted_clones import GrantedClones
from kvedge.controller.datavolumes.remote_clone_plan import (
    CreateSender,
    KeepCertificate,
    own_senders,
)
from kvedge.controller.datavolumes.worker_ends import WorkerEnds, targets_of
from kvedge.controller.datavolumes.workers.progress_client import ask_progress
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi_claims import claim_keys, index_by_claim, vmis_of
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CONFIG_NAME, CdiConfig, DataSource, DataVolume, StorageProfile
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_WORKERS: Final = 2
_MOST_STEPS: Final = 6
# After a stranger's Pod that could not be deleted.
_STRANGER_SECONDS: Final = 60.0
_SOURCE_INDEX: Final = "data-volume-source"


class DataVolumeSources(Struct, frozen=True):
    """The informers and writers that the loop works with."""

    client: KubeClient
    data_volumes: Informer[DataVolume]
    claims: Informer[PersistentVolumeClaim]
    workers: Informer[Pod]
    classes: Informer[StorageClass]
    profiles: Informer[StorageProfile]
    configs: Informer[CdiConfig]
    data_sources: Informer[DataSource]
    vmis: Informer[VirtualMachineInstance]
    events: EventRecorder
    clock: Clock


class DataVolumeLoop:
    """One reconcile loop over all DataVolumes."""

    def __init__(
        self,
        sources: DataVolumeSources,
        cluster: Callable[[], ClusterConfig],
        progress: Callable[[str], str] = ask_progress,
    ) -> None:
        """`cluster` says how workers are started now; `progress` asks the one at an address."""
        self._sources = sources
        self._client = sources.client
        self._volumes = sources.data_volumes
        self._cluster = cluster
        self._progress = progress
        self._clock = sources.clock
        self._creations = Creations(sources.client, sources.claims, sources.workers, sources.clock)
        self._ends = WorkerEnds(sources.client, sources.workers)
        index_by_claim(sources.vmis)
        sources.data_volumes.add_index(_SOURCE_INDEX, _source_of)
        grants = GrantedClones(sources.client, sources.clock)
        self._clones = CloneSources(sources.claims, sources.data_sources, sources.vmis, grants, sources.client)
        self.loop = ReconcileLoop("datavolume", self.reconcile, _WORKERS)

    def start(self) -> None:
        """Begin to work on all DataVolumes there are."""
        self._volumes.on_change(self._on_data_volume)
        self._sources.claims.on_change(self._on_claim)
        self._sources.workers.on_change(self._on_worker)
        self._sources.vmis.on_change(self._on_vmi)
        for each in (self._sources.classes, self._sources.profiles, self._sources.data_sources):
            each.on_change(lambda old, new: self._look_at_all())
        self.loop.start()

    def stop(self) -> None:
        """End the workers."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one DataVolume, and for the claim of its name where that takes an upload of its own."""
        some_stay = self._ends.end_strangers(key, self._volumes.get(*key))
        # The claim comes first, with or without a DataVolume: a DataVolume that would take it over waits for that.
        found = (self._settle(key, bare=True), self._settle(key, bare=False))
        again = min((again for again in found if again is not None), key=lambda again: again.after, default=None)
        return Again(_STRANGER_SECONDS) if again is None and some_stay else again

    def _settle(self, key: Key, *, bare: bool) -> Again | None:
        progress = None
        for _ in range(_MOST_STEPS):
            claim = self._sources.claims.get(*key) if bare else None
            of_claim = None if claim is None else upload_into(claim)
            dv = of_claim if bare else self._volumes.get(*key)
            if claim is not None and of_claim is None:
                self._ends.end_uploads(claim)
            if dv is None:
                return None
            view = self._view(dv)
            if claim is not None:
                view.claim = as_its_claim(claim, dv)
            if progress is None:
                progress = self._ask(view)
            view.progress = progress
            plan = plan_data_volume(view, self._cluster(), self._clock.now())
            if claim is not None:
                plan = claim_plan(plan, claim, user_of(self._users(dv), key.name))
            again = self._carry_out(view, plan)
            if again is not None:
                return again
            if not plan.actions:
                return None if plan.again_after is None else Again(plan.again_after)
        log.error("a DataVolume's plan does not settle", extra={"facts": {"dataVolume": str(key)}})
        return Again(5.0)

    def _view(self, dv: DataVolume) -> DataVolumeView:
        meta, sources = dv.metadata, self._sources
        config = sources.configs.get("", CONFIG_NAME)
        claim = sources.claims.get(meta.namespace, meta.name)
        source = self._clones.find_source(dv)
        sent = self._ends.senders_to(meta.namespace, meta.name)
        return DataVolumeView(
            dv=dv,
            claim=claim,
            # A user who may make Pods elsewhere may name any owner there.
            workers=[
                pod for pod in sources.workers.find_owned_by(meta.uid) if pod.metadata.namespace == meta.namespace
            ],
            consumer=self._consumer(dv),
            source=source,
            storage=StorageSeen(sources.classes.list(), sources.profiles.list(), config),
            refused=self._creations.refusal(meta.uid),
            senders=own_senders(claim, None if source is None else source.claim, sent),
        )

    def _consumer(self, dv: DataVolume) -> VirtualMachineInstance | None:
        """A guest that waits for the claim: where it can run, the claim is to be bound."""
        lively = (vmi for vmi in self._users(dv) if not vmi.is_final and vmi.metadata.deletion_timestamp is None)
        return min(lively, key=lambda vmi: vmi.metadata.name, default=None)

    def _users(self, dv: DataVolume) -> list[VirtualMachineInstance]:
        return list(vmis_of(self._sources.vmis, dv.metadata.namespace, dv.metadata.name))

    def _ask(self, view: DataVolumeView) -> str:
        for pod in view.workers:
            if pod.status.phase == "Running" and pod.status.pod_ip:
                return self._progress(pod.status.pod_ip)
        return ""

    def _carry_out(self, view: DataVolumeView, plan: DataVolumePlan) -> Again | None:
        dv = view.dv
        for told in plan.told:
            self._sources.events.record(dv, "Warning" if told.warning else "Normal", told.reason, told.message)
        for action in plan.actions:
            match action:
                case PatchStatus(body):
                    patch = at_version(body, dv.metadata.resource_version)
                    dv = self._client.patch(DataVolume, dv.metadata.namespace, dv.metadata.name, patch, "status")
                    self._volumes.observe(dv)
                case LabelDataVolume(labels):
                    patch = at_version({"metadata": {"labels": dict(labels)}}, dv.metadata.resource_version)
                    dv = self._client.patch(DataVolume, dv.metadata.namespace, dv.metadata.name, patch)
                    self._volumes.observe(dv)
                case PatchClaim(claim, body):
                    self._patch_claim(claim, body)
                case CreateClaim() | CreateWorker() | CreateSender() | KeepCertificate():
                    again = self._creations.create(dv, action)
                    if again is not None:
                        return again
                case DeleteWorker(pod):
                    self._ends.delete(pod)
        return None

    def _patch_claim(self, claim: PersistentVolumeClaim, body: dict[str, object]) -> None:
        meta = claim.metadata
        patch = at_version(body, meta.resource_version)
        self._sources.claims.observe(self._client.patch(PersistentVolumeClaim, meta.namespace, meta.name, patch))

    def _on_data_volume(self, old: DataVolume | None, new: DataVolume | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._creations.forget(item.metadata.uid)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            # One without a DataVolume has its own UID there.
            self._creations.forget(item.metadata.uid)
        key = Key(item.metadata.namespace, item.metadata.name)
        self.loop.add(key)
        for copy in self._volumes.find_indexed(_SOURCE_INDEX, f"{key.namespace}/{key.name}"):
            self.loop.add(Key(copy.metadata.namespace, copy.metadata.name))

    def _on_worker(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is not None and owner.kind in (DataVolume.KIND.kind, PersistentVolumeClaim.KIND.kind):
            self.loop.add(Key(item.metadata.namespace, owner.name))
        for target in targets_of(item):
            namespace, _, name = target.partition("/")
            self.loop.add(Key(namespace, name))

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        for named in claim_keys(item):
            namespace, _, name = named.partition("/")
            self.loop.add(Key(namespace, name))
            for copy in self._volumes.find_indexed(_SOURCE_INDEX, named):
                self.loop.add(Key(copy.metadata.namespace, copy.metadata.name))

    def _look_at_all(self) -> None:
        for dv in self._volumes.list():
            if dv.status.phase != "Succeeded":
                self.loop.add(Key(dv.metadata.namespace, dv.metadata.name))


def _source_of(dv: DataVolume) -> tuple[str, ...]:
    found = source_key(dv)
    return () if found is None else (f"{found[0]}/{found[1]}",)
