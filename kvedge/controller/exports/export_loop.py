"""Serves one export after the other, and keeps its status true.

Run by the controller role. Reads informers, asks :func:`plan_export`, and has `export_writes` do what it says. Pods of
anybody may have a claim: those of the export's namespace are listed while they count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.controller.exports.export_front import ExportFront
from kvedge.controller.exports.export_plan import plan_export
from kvedge.controller.exports.export_sources import SourceFacts, claims_of, judge_source, writing_pod
from kvedge.controller.exports.export_view import (
    EndExport,
    EndExporter,
    ExportPlan,
    ExportView,
    Front,
    KeepSecret,
    KeepService,
    Report,
    Serve,
)
from kvedge.controller.exports.export_writes import ExportWrites
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.late_work import LateWork
from kvedge.controller.vmi_claims import claim_keys, index_by_claim, vmis_of
from kvedge.kube.errors import NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.observed_delete import delete_observed
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.exports import SERVICE_LABEL
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_MOST_STEPS: Final = 8
_OF_SOURCE: Final = "exports-of-source"
_CAUGHT_UP_SECONDS: Final = 0.05
# After a refusal, or while there is no authority yet.
_REFUSED_SECONDS: Final = 5.0
_NO_AUTHORITY_SECONDS: Final = 1.0
_CLAIM, _VM, _SNAPSHOT = (
    PersistentVolumeClaim.KIND.kind,
    VirtualMachine.KIND.kind,
    VirtualMachineSnapshot.KIND.kind,
)
_BACKUP: Final = VirtualMachineBackup.KIND.kind


class ExportSources(Struct, frozen=True):
    """The informers and writers that the loop works with; `pods` are exporters."""

    client: KubeClient
    exports: Informer[VirtualMachineExport]
    pods: Informer[Pod]
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    claims: Informer[PersistentVolumeClaim]
    snapshots: Informer[VirtualMachineSnapshot]
    contents: Informer[VirtualMachineSnapshotContent]
    # A server may not have these yet: only exports of backups wait for them.
    backups: Informer[VirtualMachineBackup]
    trackers: Informer[VirtualMachineBackupTracker]
    events: EventRecorder
    clock: Clock
    cluster: Callable[[], ClusterConfig]
    cdi: Callable[[], CdiConfig | None]


def exporter_pods(client: KubeClient) -> Informer[Pod]:
    """The informer of exporters."""
    return Informer(client, Pod, label_selector=SERVICE_LABEL)


def make_export_work(sources: ExportSources) -> LateWork:
    """What serves exports. The informers of other kinds are started and stopped by others."""
    shared = (sources.vms, sources.vmis, sources.claims, sources.snapshots, sources.contents)
    return LateWork("exports", (sources.exports, sources.pods), shared, ExportLoop(sources))


class ExportLoop:
    """One reconcile loop over all exports."""

    def __init__(self, sources: ExportSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._client, self._clock = sources.client, sources.clock
        self._exports, self._pods = sources.exports, sources.pods
        self._front = ExportFront(sources.client, sources.cdi, sources.clock)
        self._writes = ExportWrites(sources.client, sources.pods, sources.events, self._front)
        index_by_claim(sources.vmis)
        self._exports.add_index(_OF_SOURCE, _source_of)
        self.loop = ReconcileLoop("exports", self.reconcile)
        self._exports.on_change(self._on_export)
        self._pods.on_change(self._on_pod)
        sources.vms.on_change(lambda old, new: self._on_source(_VM, old, new))
        sources.snapshots.on_change(lambda old, new: self._on_source(_SNAPSHOT, old, new))
        sources.claims.on_change(lambda old, new: self._on_source(_CLAIM, old, new))
        sources.backups.on_change(lambda old, new: self._on_source(_BACKUP, old, new))
        sources.vmis.on_change(self._on_vmi)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one export.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
            CertificateError: when the authority's Secret holds something else.
        """
        try:
            for _ in range(_MOST_STEPS):
                export = self._exports.get(*key)
                if export is None:
                    return None
                view = self._view(export)
                plan = plan_export(view, self._clock.now())
                if not plan.actions:
                    return None if plan.again_after is None else Again(max(_CAUGHT_UP_SECONDS, plan.again_after))
                again = self._carry_out(view, plan)
                if again is not None:
                    return again
        except NotFound as error:
            # The authority, or something that has gone since it was listed.
            log.info("an export waits", extra={"facts": {"export": str(key), "for": str(error)}})
            return Again(_NO_AUTHORITY_SECONDS)
        log.error("an export's plan does not settle", extra={"facts": {"export": str(key)}})
        return Again(_REFUSED_SECONDS)

    def _view(self, export: VirtualMachineExport) -> ExportView:
        pod = next(iter(self._find_pods(export)), None)
        source = judge_source(export, self._look_up(export))
        serves = pod is not None and pod.metadata.deletion_timestamp is None and not source.reason
        return ExportView(
            export=export,
            source=source,
            pod=pod,
            has_secret=pod is None or self._writes.has_secret(export, pod),
            has_service=not serves or self._writes.has_service(export),
            refusal=self._writes.refusal(export),
            ca=self._front.authority().bundle.decode() if serves else "",
            front=self._front.front() if serves else Front(),
        )

    def _find_pods(self, export: VirtualMachineExport) -> Sequence[Pod]:
        # A user who may make Pods elsewhere may name any owner there.
        owned = self._pods.find_owned_by(export.metadata.uid)
        return [pod for pod in owned if pod.metadata.namespace == export.metadata.namespace]

    def _look_up(self, export: VirtualMachineExport) -> SourceFacts:
        sources, namespace = self._sources, export.metadata.namespace
        kind, name = export.spec.source.kind, export.spec.source.name
        facts = SourceFacts()
        if kind == _VM:
            facts = replace(facts, vm=sources.vms.get(namespace, name), vmi=sources.vmis.get(namespace, name))
        elif kind == _SNAPSHOT:
            snapshot = sources.snapshots.get(namespace, name)
            content = None if snapshot is None else snapshot.status.virtual_machine_snapshot_content_name
            found = None if content is None else sources.contents.get(namespace, content)
            facts = replace(facts, snapshot=snapshot, content=found)
        elif kind == _BACKUP:
            backup = sources.backups.get(namespace, name)
            source = "" if backup is None else backup.spec.source.name
            tracker = sources.trackers.get(namespace, source) if backup is not None and backup.by_tracker else None
            vm = source if tracker is None else tracker.spec.source.name
            facts = replace(facts, backup=backup, backed_up_vm="" if tracker is None and _is_tracked(backup) else vm)
        names = claims_of(export, facts)
        claims = {each: claim for each in names if (claim := sources.claims.get(namespace, each)) is not None}
        return replace(facts, claims=claims, users=self._find_users(namespace, claims))

    def _find_users(self, namespace: str, claims: dict[str, PersistentVolumeClaim]) -> dict[str, str]:
        users: dict[str, str] = {}
        for claim in claims:
            running = [vmi for vmi in vmis_of(self._sources.vmis, namespace, claim) if not vmi.is_final]
            if running:
                users[claim] = f"VirtualMachineInstance {running[0].metadata.name}"
        left = [claim for claim in claims if claim not in users]
        if left:
            pods = self._client.list(Pod, namespace)
            for claim in left:
                if name := writing_pod(pods, claim):
                    users[claim] = f"Pod {name}"
        return users

    def _carry_out(self, view: ExportView, plan: ExportPlan) -> Again | None:
        export, now = view.export, self._clock.now()
        meta = export.metadata
        again: Again | None = None
        for action in plan.actions:
            match action:
                case Report(body):
                    patch = at_version(body, export.metadata.resource_version)
                    export = self._client.patch(VirtualMachineExport, meta.namespace, meta.name, patch, "status")
                    self._exports.observe(export)
                case Serve():
                    if not self._writes.serve(export, view.source, self._sources.cluster(), now):
                        again = Again(_REFUSED_SECONDS if view.refusal else _CAUGHT_UP_SECONDS)
                case KeepSecret(pod):
                    self._writes.keep_secrets(export, view.source, pod, now)
                case KeepService():
                    if not self._writes.keep_service(export):
                        again = Again(_REFUSED_SECONDS)
                case EndExporter(pod):
                    delete_observed(self._client, self._pods, pod)
                    again = Again(_CAUGHT_UP_SECONDS)
                case EndExport():
                    delete_observed(self._client, self._exports, export)
                    again = Again(_REFUSED_SECONDS)
        for told in plan.told:
            self._sources.events.record(export, told.type, told.reason, told.message)
        return again

    def _on_export(self, old: VirtualMachineExport | None, new: VirtualMachineExport | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._writes.forget(item.metadata.uid)
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is not None and owner.kind == VirtualMachineExport.KIND.kind:
            self.loop.add(Key(item.metadata.namespace, owner.name))

    def _on_source(
        self,
        kind: str,
        old: VirtualMachine | VirtualMachineSnapshot | PersistentVolumeClaim | VirtualMachineBackup | None,
        new: VirtualMachine | VirtualMachineSnapshot | PersistentVolumeClaim | VirtualMachineBackup | None,
    ) -> None:
        item = new or old
        assert item is not None
        self._look_at(kind, item.metadata.namespace, item.metadata.name)

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        self._look_at(_VM, item.metadata.namespace, item.metadata.name)
        for key in claim_keys(item):
            self._look_at(_CLAIM, *key.split("/", 1))

    def _look_at(self, kind: str, namespace: str, name: str) -> None:
        for export in self._exports.find_indexed(_OF_SOURCE, f"{kind}/{namespace}/{name}"):
            self.loop.add(Key(namespace, export.metadata.name))


def _is_tracked(backup: VirtualMachineBackup | None) -> bool:
    return backup is not None and backup.by_tracker


def _source_of(export: VirtualMachineExport) -> tuple[str, ...]:
    source = export.spec.source
    return (f"{source.kind}/{export.metadata.namespace}/{source.name}",)
