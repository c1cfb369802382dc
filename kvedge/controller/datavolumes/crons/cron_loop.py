"""Keeps DataImportCrons: one after the other gets its newest image.

Run by the controller role where CDI is not installed. Reads informers, asks :func:`plan_cron`, does what it says in its
order. The source is looked at by a Pod in the DataImportCron's namespace, which alone has its credentials.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from kvedge.controller.datavolumes.crons.cron_objects import import_name, is_import, owner_of_cron
from kvedge.controller.datavolumes.crons.cron_plan import (
    CreateImport,
    CronAction,
    CronPlan,
    CronView,
    DeleteImport,
    EndPoll,
    PatchCron,
    PointAt,
    Poll,
    plan_cron,
)
from kvedge.controller.datavolumes.workers.foreign_workers import foreign_worker
from kvedge.controller.datavolumes.workers.worker_job_plan import poll_job
from kvedge.controller.datavolumes.workers.worker_pod_manifest import poll_pod
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Unavailable
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import encode
from kvedge.resources.data_volume_names import CRON_LABEL, DESIRED_DIGEST
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import CONFIG_NAME, CdiConfig, DataSource, DataVolume
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_MOST_STEPS: Final = 6
_CAUGHT_UP_SECONDS: Final = 1.0
# After a server's refusal, such as a quota's.
_REFUSED_SECONDS: Final = 30.0
_INDEX: Final = "import-cron"
_SOURCE_INDEX: Final = "data-source"
_USED_INDEX: Final = "used-claim"


class CronSources(Struct, frozen=True):
    """The informers and writers that the loop works with."""

    client: KubeClient
    crons: Informer[DataImportCron]
    data_volumes: Informer[DataVolume]
    data_sources: Informer[DataSource]
    workers: Informer[Pod]
    configs: Informer[CdiConfig]
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    events: EventRecorder
    clock: Clock


class CronLoop:
    """One reconcile loop over all DataImportCrons."""

    def __init__(self, sources: CronSources, cluster: Callable[[], ClusterConfig]) -> None:
        """The informers have not been started yet; `cluster` says how workers are started now."""
        self._sources = sources
        self._client = sources.client
        self._cluster = cluster
        sources.data_volumes.add_index(_INDEX, _cron_of)
        sources.crons.add_index(_SOURCE_INDEX, _data_source_of)
        sources.vms.add_index(_USED_INDEX, _find_claims_of_vm)
        sources.vmis.add_index(_USED_INDEX, _find_claims_of_vmi)
        self.loop = ReconcileLoop("data-import-cron", self.reconcile)

    def start(self) -> None:
        """Begin to work on all DataImportCrons there are."""
        sources = self._sources
        sources.crons.on_change(self._on_cron)
        sources.data_volumes.on_change(self._on_data_volume)
        sources.workers.on_change(self._on_worker)
        sources.data_sources.on_change(self._on_data_source)
        self.loop.start()

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one DataImportCron."""
        for _ in range(_MOST_STEPS):
            cron = self._sources.crons.get(*key)
            if cron is None:
                return None
            plan = plan_cron(self._view(cron), self._sources.clock.now())
            again = self._carry_out(cron, plan)
            if again is not None:
                return again
            if not plan.actions:
                return None if plan.again_after is None else Again(plan.again_after)
        log.error("a DataImportCron's plan does not settle", extra={"facts": {"dataImportCron": str(key)}})
        return Again(_CAUGHT_UP_SECONDS * 5)

    def _view(self, cron: DataImportCron) -> CronView:
        meta, sources = cron.metadata, self._sources
        # A user who may make Pods elsewhere may name any owner there.
        polls = [pod for pod in sources.workers.find_owned_by(meta.uid) if pod.metadata.namespace == meta.namespace]
        imports = list(sources.data_volumes.find_indexed(_INDEX, f"{meta.namespace}/{meta.name}"))
        digest = meta.annotations.get(DESIRED_DIGEST, "")
        named_so = sources.data_volumes.get(meta.namespace, import_name(cron, digest)) if digest else None
        rivals = sources.crons.find_indexed(_SOURCE_INDEX, *_data_source_of(cron))
        return CronView(
            cron=cron,
            poll=min(polls, key=lambda pod: pod.metadata.name, default=None),
            imports=imports,
            data_source=sources.data_sources.get(meta.namespace, cron.spec.managed_data_source),
            # A cron that is being deleted imports nothing more.
            rivals=[
                other
                for other in rivals
                if other.metadata.name != meta.name and other.metadata.deletion_timestamp is None
            ],
            used={dv.metadata.name for dv in imports if self._is_used(dv)},
            in_the_way=named_so is not None and not is_import(cron, named_so),
        )

    def _is_used(self, dv: DataVolume) -> bool:
        """Whether a VM, running or not, has the DataVolume's claim."""
        claim = f"{dv.metadata.namespace}/{dv.metadata.name}"
        return any(users.find_indexed(_USED_INDEX, claim) for users in (self._sources.vms, self._sources.vmis))

    def _carry_out(self, cron: DataImportCron, plan: CronPlan) -> Again | None:
        for action in plan.actions:
            try:
                done = self._do(cron, action)
            except AlreadyExists:
                # The cache is behind, or something else has the name.
                return Again(_CAUGHT_UP_SECONDS)
            except NotFound:
                continue
            except (Conflict, Unavailable):
                raise
            except KubeError as error:
                self._sources.events.record(cron, "Warning", "FailedCreate", str(error)[:1024])
                return Again(_REFUSED_SECONDS)
            if done is not None:
                cron = done
        return None

    def _do(self, cron: DataImportCron, action: CronAction) -> DataImportCron | None:
        sources, namespace = self._sources, cron.metadata.namespace
        match action:
            case PatchCron(body):
                patch = at_version(body, cron.metadata.resource_version)
                cron = self._client.patch(DataImportCron, namespace, cron.metadata.name, patch)
                sources.crons.observe(cron)
                return cron
            case Poll():
                config = sources.configs.get("", CONFIG_NAME)
                dv = DataVolume(metadata=cron.metadata, spec=cron.spec.template.spec)
                pod = poll_pod(dv, poll_job(dv, config), owner_of_cron(cron), self._cluster(), config)
                self._poll(pod)
            case EndPoll(pod):
                left = self._client.delete(Pod, namespace, pod.metadata.name, Preconditions(uid=pod.metadata.uid))
                if left is not None:
                    sources.workers.observe(left)
            case CreateImport(dv):
                sources.data_volumes.observe(self._client.create(dv))
                sources.events.record(cron, "Normal", "ImportScheduled", f"Import into {dv.metadata.name} scheduled")
            case DeleteImport(dv):
                uid = Preconditions(uid=dv.metadata.uid)
                going = self._client.delete(DataVolume, namespace, dv.metadata.name, uid)
                if going is not None:
                    sources.data_volumes.observe(going)
            case PointAt(wanted, there):
                self._point_data_source(wanted, there)
        return None

    def _poll(self, pod: Pod) -> None:
        try:
            self._sources.workers.observe(self._client.create(pod))
        except AlreadyExists as error:
            problem = foreign_worker(self._client, pod)
            if problem is None:
                raise
            # It does not go for our waiting: told, and asked again after long.
            raise KubeError(error.status, problem.reason, problem.message) from error

    def _point_data_source(self, wanted: DataSource, there: DataSource | None) -> None:
        if there is None:
            self._sources.data_sources.observe(self._client.create(wanted))
            return
        # Whole: what it pointed at before goes.
        source = {"snapshot": None, "dataSource": None, **encode(wanted.spec.source)}
        body = {"metadata": {"labels": wanted.metadata.labels}, "spec": {"source": source}}
        meta = there.metadata
        patched = self._client.patch(DataSource, meta.namespace, meta.name, at_version(body, meta.resource_version))
        self._sources.data_sources.observe(patched)

    def _on_cron(self, old: DataImportCron | None, new: DataImportCron | None) -> None:
        for item in (old, new):
            if item is not None:
                self.loop.add(Key(item.metadata.namespace, item.metadata.name))
        if new is None or old is None or old.spec.managed_data_source != new.spec.managed_data_source:
            # Another one may lead the DataSource from now on.
            for item in (old, new):
                self._look_at_leaders_of(*(() if item is None else _data_source_of(item)))

    def _look_at_leaders_of(self, *data_sources: str) -> None:
        for named in data_sources:
            for cron in self._sources.crons.find_indexed(_SOURCE_INDEX, named):
                self.loop.add(Key(cron.metadata.namespace, cron.metadata.name))

    def _on_data_volume(self, old: DataVolume | None, new: DataVolume | None) -> None:
        item = new or old
        assert item is not None
        for name in _cron_of(item):
            namespace, _, label = name.partition("/")
            self.loop.add(Key(namespace, label))

    def _on_worker(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is not None and owner.kind == DataImportCron.KIND.kind:
            self.loop.add(Key(item.metadata.namespace, owner.name))

    def _on_data_source(self, old: DataSource | None, new: DataSource | None) -> None:
        item = new or old
        assert item is not None
        self._look_at_leaders_of(f"{item.metadata.namespace}/{item.metadata.name}")


def _cron_of(dv: DataVolume) -> tuple[str, ...]:
    label = dv.metadata.labels.get(CRON_LABEL)
    return () if not label else (f"{dv.metadata.namespace}/{label}",)


def _data_source_of(cron: DataImportCron) -> tuple[str, ...]:
    return (f"{cron.metadata.namespace}/{cron.spec.managed_data_source}",)


def _find_claims_of_vm(vm: VirtualMachine) -> Iterator[str]:
    return _find_used_claims(vm.metadata.namespace, [] if vm.spec.template is None else vm.spec.template.spec.volumes)


def _find_claims_of_vmi(vmi: VirtualMachineInstance) -> Iterator[str]:
    return _find_used_claims(vmi.metadata.namespace, vmi.spec.volumes)


def _find_used_claims(namespace: str, volumes: Iterable[Volume]) -> Iterator[str]:
    return (f"{namespace}/{name}" for name in {name for _, name in claims(volumes)})
