"""Brings one live migration after the other to its end.

Run by the controller role. Reads migrations, policies, VMIs and Pods from informers, asks
:func:`plan_migration`, and has `migration_steps` do what it says. One worker, so that the limits hold.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from kvedge.controller.late_work import LateWork
from kvedge.controller.migrations.migration_plan import plan_migration, target_of_migration
from kvedge.controller.migrations.migration_queue import Place, find_next, has_begun
from kvedge.controller.migrations.migration_steps import MigrationSteps
from kvedge.controller.migrations.migration_view import MigrationView
from kvedge.controller.migrations.readiness import is_ready_to_begin
from kvedge.controller.migrations.target_cpu import explain_unsuited
from kvedge.controller.migrations.target_creation import MigrationSources
from kvedge.controller.phase_times import time_migration
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.launcher_pods import launcher_of
from kvedge.controller.vmi.vmi_steps import own_pods
from kvedge.kube.figures.vmi_figures import VMI_FIGURES
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.volume_facts import claims, hotplugged_volumes
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import (
    MIGRATION_JOB_NAME,
    MIGRATION_JOB_UID,
    VirtualMachineInstanceMigration,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

_MOST_STEPS: Final = 8
_OF_VMI: Final = "migrations-of-vmi"
_OPEN: Final = "open-migrations"
_OF_JOB: Final = "pods-of-migration"
# For so long an answer of who is next is taken again: only those that it names begin meanwhile.
_QUEUE_SECONDS: Final = 0.5


def make_migration_work(sources: MigrationSources) -> LateWork:
    """What carries migrations out. All informers but the migrations' and the policies' are others'."""
    shared = (sources.vmis, sources.pods, sources.claims, sources.attachments, sources.nodes)
    return LateWork("migrations", (sources.migrations, sources.policies), shared, MigrationLoop(sources))


class MigrationLoop:
    """One reconcile loop over all migrations."""

    def __init__(self, sources: MigrationSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._migrations, self._vmis, self._pods = sources.migrations, sources.vmis, sources.pods
        self._steps = MigrationSteps(sources)
        self._migrations.add_index(_OF_VMI, lambda item: (f"{item.metadata.namespace}/{item.spec.vmi_name}",))
        self._migrations.add_index(_OPEN, lambda item: () if item.is_final else ("",))
        self._pods.add_index(_OF_JOB, _job_of)
        # UIDs of those that may begin, and until when that holds.
        self._next: tuple[set[str], float] = (set(), 0.0)
        self.loop = ReconcileLoop("migrations", self.reconcile)
        self._migrations.on_change(self._on_migration)
        self._vmis.on_change(self._on_vmi)
        self._pods.on_change(self._on_pod)
        sources.attachments.on_change(self._on_attachment)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one migration, and for a VMI of that name whose own migration is gone."""
        self._cancel_orphan(self._vmis.get(*key))
        self._end_orphans(key)
        for _ in range(_MOST_STEPS):
            migration = self._migrations.get(*key)
            if migration is None:
                return None
            view = self._view(migration)
            config = self._sources.config()
            view = replace(
                view,
                has_turn=self._has_turn(view),
                version=config.version,
                support=config.support,
                versions=self._sources.versions(),
                attachments=self._find_attachments(view),
                claims=self._find_claims(view),
                left_state=self._steps.state.find_left(view),
                unsuited=self._find_unsuited(view),
            )
            plan = plan_migration(view, self._sources.clock.now())
            if not plan.actions:
                self._steps.tell(view, plan)
                return None if plan.again_after is None else Again(plan.again_after)
            wait = self._steps.carry_out(view, plan)
            if wait is not None:
                return Again(wait)
        log.error("a migration's plan does not settle", extra={"facts": {"migration": str(key)}})
        return Again(5.0)

    def _view(self, migration: VirtualMachineInstanceMigration) -> MigrationView:
        meta, name = migration.metadata, migration.spec.vmi_name
        vmi = self._vmis.get(meta.namespace, name)
        others = [
            each
            for each in self._migrations.find_indexed(_OF_VMI, f"{meta.namespace}/{name}")
            if each.metadata.uid != meta.uid
        ]
        return MigrationView(
            migration,
            vmi,
            () if vmi is None else own_pods(vmi, self._pods.find_owned_by(vmi.metadata.uid)),
            others,
        )

    def _find_attachments(self, view: MigrationView) -> Sequence[Pod]:
        target = target_of_migration(view)
        return () if target is None else self._sources.attachments.find_owned_by(target.metadata.uid)

    def _find_unsuited(self, view: MigrationView) -> str | None:
        target = target_of_migration(view)
        if view.vmi is None or target is None or target.spec.node_name:
            return None
        nodes = ((node.metadata.name, node.metadata.labels) for node in self._sources.nodes.list())
        return explain_unsuited(view.vmi, target, nodes)

    def _find_claims(self, view: MigrationView) -> dict[str, PersistentVolumeClaim]:
        volumes = () if view.vmi is None else hotplugged_volumes(view.vmi)
        namespace = view.migration.metadata.namespace
        found = ((name, self._sources.claims.get(namespace, name)) for _, name in claims(volumes))
        return {name: claim for name, claim in found if claim is not None}

    def _has_turn(self, view: MigrationView) -> bool:
        if target_of_migration(view) is not None or not is_ready_to_begin(view):
            # Nothing begins, whatever the limits say.
            return True
        now, uid = self._sources.clock.monotonic(), view.migration.metadata.uid
        chosen, until = self._next
        if now >= until:
            chosen = self._choose()
            self._next = (chosen, now + _QUEUE_SECONDS)
        return uid in chosen

    def _choose(self) -> set[str]:
        """The migrations that may begin now."""
        begun, waiting = [], []
        for migration in self._migrations.find_indexed(_OPEN, ""):
            view = self._view(migration)
            place = Place(migration, view.vmi.status.node_name if view.vmi is not None else "")
            if has_begun(migration, target_of_migration(view)):
                begun.append(_with_source(view, place))
            elif is_ready_to_begin(view):
                waiting.append(place)
        return {place.migration.metadata.uid for place in find_next(waiting, begun, self._sources.limits())}

    def _cancel_orphan(self, vmi: VirtualMachineInstance | None) -> None:
        """Nobody can cancel a migration any more that somebody has removed with its finalizer."""
        state = None if vmi is None else vmi.status.migration_state
        if vmi is None or state is None or state.abort_requested or not self._is_orphaned(vmi):
            return
        self._steps.cancel_orphan(vmi, state)

    def _is_orphaned(self, vmi: VirtualMachineInstance) -> bool:
        """Whether a VMI moves by a migration that is not known."""
        state = vmi.status.migration_state
        if state is None or not state.is_open or vmi.is_final:
            return False
        known = self._migrations.find_indexed(_OF_VMI, f"{vmi.metadata.namespace}/{vmi.metadata.name}")
        return all(each.job != state.migration_uid for each in known)

    def _end_orphans(self, key: Key) -> None:
        """End Pods that were made for a migration of this name that is not there any more."""
        migration = self._migrations.get(*key)
        uid = "" if migration is None else migration.job
        for pod in self._pods.find_indexed(_OF_JOB, f"{key.namespace}/{key.name}"):
            is_its = pod.metadata.labels.get(MIGRATION_JOB_UID) == uid
            if is_its or has_ended(pod) or pod.metadata.deletion_timestamp is not None or self._has_use(pod):
                continue
            self._steps.end_orphan(pod, key.name)

    def _has_use(self, pod: Pod) -> bool:
        """Whether a guest is in a Pod, or was, or comes to it: the VMI's plan ends it in its time."""
        owner = pod.metadata.controller_reference()
        vmi = None if owner is None else self._vmis.get(pod.metadata.namespace, owner.name)
        if vmi is None or owner is None or vmi.metadata.uid != owner.uid:
            # The garbage collector's.
            return True
        state = vmi.status.migration_state
        if state is not None and pod.metadata.name in (state.source_pod, state.target_pod):
            return True
        return pod is launcher_of(vmi, own_pods(vmi, self._pods.find_owned_by(vmi.metadata.uid)))

    def _on_migration(
        self, old: VirtualMachineInstanceMigration | None, new: VirtualMachineInstanceMigration | None
    ) -> None:
        item = new or old
        assert item is not None
        VMI_FIGURES.note_transitions(time_migration(old, new))
        if new is None:
            self._steps.forget(item.metadata.uid)
            self.loop.add(Key(item.metadata.namespace, item.spec.vmi_name))
        self.loop.add(_key(item))
        if new is None or (new.is_final and (old is None or not old.is_final)):
            # A place is free, and the VMI.
            self._next = (set(), 0.0)
            for each in self._migrations.find_indexed(_OPEN, ""):
                if each.status.phase == "Pending":
                    self.loop.add(_key(each))

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        self._look_at(item.metadata.namespace, item.metadata.name, is_gone=new is None)
        if new is not None and self._is_orphaned(new):
            self.loop.add(Key(new.metadata.namespace, new.metadata.name))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        for job in _job_of(item):
            self.loop.add(Key(*job.split("/", 1)))
        owner = item.metadata.controller_reference()
        if owner is not None and owner.kind == VirtualMachineInstance.KIND.kind:
            self._look_at(item.metadata.namespace, owner.name, is_gone=False)

    def _on_attachment(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        launcher = None if owner is None else self._pods.get(item.metadata.namespace, owner.name)
        for job in () if launcher is None else _job_of(launcher):
            self.loop.add(Key(*job.split("/", 1)))

    def _look_at(self, namespace: str, vmi: str, *, is_gone: bool) -> None:
        for each in self._migrations.find_indexed(_OF_VMI, f"{namespace}/{vmi}"):
            if is_gone or not each.is_final:
                self.loop.add(_key(each))


def _with_source(view: MigrationView, place: Place) -> Place:
    """The node that a guest leaves, also once it has left."""
    return place if view.state is None else replace(place, source=view.state.source_node)


def _key(migration: VirtualMachineInstanceMigration) -> Key:
    return Key(migration.metadata.namespace, migration.metadata.name)


def _job_of(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.annotations.get(MIGRATION_JOB_NAME, "")
    return (f"{pod.metadata.namespace}/{name}",) if name and MIGRATION_JOB_UID in pod.metadata.labels else ()
