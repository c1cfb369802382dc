"""Brings guests to launchers of this release, and disks to their new claims; one pass looks at all VMIs.

Run by the controller role. Reads VMIs, migrations, launcher Pods, nodes and the KubeVirt object from informers, asks
`update_plan`, and makes, deletes and evicts what it says. The answer of each write goes into the cache, so that the
next pass knows the migration. What the KubeVirt object tells of it is handed to the loop that writes that object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct

from kvedge.controller.guest_moves import Guest, Wait
from kvedge.controller.late_work import LateWork
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.launcher_pods import launcher_of
from kvedge.controller.vmi.vmi_steps import own_pods
from kvedge.controller.workloads.update_plan import make_migration, plan_updates
from kvedge.controller.workloads.update_report import report_updates
from kvedge.controller.workloads.update_view import Abort, Evictions, Rules, UpdatePlan
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.configuration.configuration_in_force import counting
from kvedge.resources.evacuation import is_migratable
from kvedge.resources.meta import Condition
from kvedge.resources.moves.workload_updates import (
    OUTDATED_LAUNCHER,
    UPDATE_ABORTION,
    changes_volumes,
    needs_other_pod,
)
from kvedge.resources.names import LAUNCHER_VERSION, SCHEDULABLE, VERSION
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_OF_VMI: Final = "updates-of-vmi"
# All VMIs are looked at together: what happens to many of them at once costs one pass.
_ALL: Final = Key("", "workloads")
_GATHER_SECONDS: Final = 0.5
_FOR: Final = "automated workload update"


class WorkloadSources(Struct, frozen=True):
    """The informers and writers that the loop works with, and what holds now."""

    client: KubeClient
    migrations: Informer[VirtualMachineInstanceMigration]
    vmis: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    nodes: Informer[Node]
    follower: ConfigurationFollower
    events: EventRecorder
    clock: Clock
    version: str
    # The versions of all nodes' handlers by the nodes' names; empty for one that does not tell.
    versions: Callable[[], Mapping[str, str]]


def make_workload_work(sources: WorkloadSources) -> tuple[LateWork, WorkloadLoop]:
    """What brings guests up to date. All informers are started and stopped by others."""
    loop = WorkloadLoop(sources)
    shared = (sources.migrations, sources.vmis, sources.pods, sources.nodes, sources.follower.informer)
    return LateWork("workloads", (), shared, loop), loop


class WorkloadLoop:
    """One worker over all VMIs."""

    def __init__(self, sources: WorkloadSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        self._migrations, self._vmis, self._pods = sources.migrations, sources.vmis, sources.pods
        # When each VMI was tried to be evicted last, by its UID, and when a batch went last.
        self._tried: dict[str, float] = {}
        self._last_batch: float | None = None
        # By the VMI's UID: the failed migration of which its user was told.
        self._told: dict[str, str] = {}
        self._report: Condition | None = None
        self._on_report: Callable[[], None] = lambda: None
        self._migrations.add_index(_OF_VMI, lambda each: (f"{each.metadata.namespace}/{each.spec.vmi_name}",))
        self.loop = ReconcileLoop("workloads", self.reconcile)
        sources.follower.informer.on_change(self._on_kubevirt)
        sources.nodes.on_change(self._on_node)
        self._vmis.on_change(self._on_vmi)
        self._migrations.on_change(self._on_migration)
        self._pods.on_change(self._on_pod)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def read_report(self) -> Condition | None:
        """What the KubeVirt object should tell; None until the first pass."""
        return self._report

    def on_report(self, callback: Callable[[], None]) -> None:
        """Call when that has changed."""
        self._on_report = callback

    def reconcile(self, key: Key) -> Again | None:
        """One pass for all VMIs.

        Raises:
            KubeError: when the server refuses something; the pass is repeated, later each time.
        """
        clock, rules = self._sources.clock, self._read_rules()
        guests = [self._view(vmi) for vmi in self._vmis.list()]
        evictions = Evictions(self._find_next_batch(rules), dict(self._tried))
        plan = plan_updates(guests, rules, evictions, clock.now())
        self._tell_report(report_updates(plan, rules))
        for wait in plan.wait:
            self._tell_wait(wait)
        refusals = self._carry_out(plan)
        # All are tried: one that is refused keeps no other back.
        if refusals:
            raise refusals[0]
        return None if plan.again_after is None else Again(plan.again_after)

    def _carry_out(self, plan: UpdatePlan) -> list[KubeError]:
        for vmi in plan.mark:
            self._label(vmi, "")
        for vmi in plan.unmark:
            self._label(vmi, None)
        done = [self._abort(abort) for abort in plan.abort]
        done += [self._create(vmi) for vmi in (*plan.exchange, *plan.join, *plan.move)]
        if plan.evict:
            self._last_batch = self._sources.clock.monotonic()
        done += [self._evict(vmi) for vmi in plan.evict]
        return [refusal for refusal in done if refusal is not None]

    def _read_rules(self) -> Rules:
        found, kubevirt = self._sources.follower.current, counting(self._sources.follower.informer.list())
        versions = self._sources.versions()
        return Rules(
            found.workload_updates,
            found.migrations.parallel_per_cluster,
            self._sources.version,
            versions,
            kubevirt is not None and kubevirt.status.phase == "Deployed",
            len(versions),
        )

    def _find_next_batch(self, rules: Rules) -> float:
        if self._last_batch is None:
            return 0.0
        return max(0.0, self._last_batch + rules.updates.batch_seconds - self._sources.clock.monotonic())

    def _view(self, vmi: VirtualMachineInstance) -> Guest:
        name = f"{vmi.metadata.namespace}/{vmi.metadata.name}"
        pods = [pod for pod in self._pods.find_owned_by(vmi.metadata.uid) if not has_ended(pod)]
        is_ending = any(pod.metadata.deletion_timestamp is not None for pod in pods)
        return Guest(vmi, self._migrations.find_indexed(_OF_VMI, name), len(pods), is_ending)

    def _label(self, vmi: VirtualMachineInstance, value: str | None) -> None:
        meta = vmi.metadata
        body = {"metadata": {"uid": meta.uid, "labels": {OUTDATED_LAUNCHER: value}}}
        try:
            changed = self._sources.client.patch(VirtualMachineInstance, meta.namespace, meta.name, MergePatch(body))
        except KubeError as error:
            # The label is for those who list. It is tried again with the next pass, and holds up no move.
            log.debug("label not written", extra={"facts": {"vmi": meta.name, "error": str(error)}})
            return
        self._vmis.observe(changed)

    def _create(self, vmi: VirtualMachineInstance) -> KubeError | None:
        """Make a migration; the refusal, or None."""
        try:
            created = self._sources.client.create(make_migration(vmi))
        except NotFound as error:
            # The namespace goes, and the VMI with it.
            log.debug("no migration made", extra={"facts": {"vmi": vmi.metadata.name, "error": str(error)}})
            return None
        except KubeError as error:
            if not is_passing(error):
                self._tell(vmi, "Warning", "FailedCreate", f"Error creating a Migration for {_FOR}: {error}")
            return error
        self._migrations.observe(created)
        self._told.pop(vmi.metadata.uid, None)
        self._tell(vmi, "Normal", "SuccessfulCreate", f"Created Migration {created.metadata.name} for {_FOR}")
        return None

    def _evict(self, vmi: VirtualMachineInstance) -> KubeError | None:
        """Ask for the end of a guest's Pod, as a drain does; the refusal of a server that is busy, or None."""
        pod = launcher_of(vmi, own_pods(vmi, self._pods.find_owned_by(vmi.metadata.uid)))
        self._tried[vmi.metadata.uid] = self._sources.clock.monotonic()
        if pod is None:
            return None
        meta = pod.metadata
        options = {"preconditions": {"uid": meta.uid}}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": options,
        }
        try:
            self._sources.client.request("POST", Pod.KIND.path(meta.namespace, meta.name, "eviction"), body)
        except NotFound:
            return None
        except KubeError as error:
            # A budget or a strategy may hold it: that is no reason to hurry, and the next batch has others first.
            self._tell(vmi, "Warning", "FailedEvict", f"Error evicting VMI during {_FOR}: {error.message or error}")
            return None
        self._tell(vmi, "Normal", "SuccessfulEvict", f"Initiated eviction of VMI as part of {_FOR}")
        return None

    def _abort(self, abort: Abort) -> KubeError | None:
        """Give up a migration; the refusal, or None."""
        vmi, meta = abort.vmi, abort.migration.metadata
        try:
            self._sources.client.delete(
                VirtualMachineInstanceMigration, meta.namespace, meta.name, Preconditions(uid=meta.uid)
            )
        except NotFound:
            return None
        except KubeError as error:
            text = f"Failed to abort change for vmi: {vmi.metadata.name}: {error}"
            self._tell(vmi, "Warning", "FailedChangeAbortion", text)
            return error
        self._tell(vmi, "Normal", "SuccessfulChangeAbortion", f"Aborted change for vmi: {vmi.metadata.name}")
        return None

    def _tell_wait(self, wait: Wait) -> None:
        meta = wait.vmi.metadata
        if self._told.get(meta.uid) != wait.last:
            self._told[meta.uid] = wait.last
            self._tell(wait.vmi, "Warning", "MigrationBackoff", f"backoff migrating vmi {meta.namespace}/{meta.name}")

    def _tell(self, vmi: VirtualMachineInstance, kind: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        self._sources.events.record(vmi, kind, reason, text)

    def _tell_report(self, found: Condition) -> None:
        if self._report != found:
            self._report = found
            self._on_report()

    def _look(self) -> None:
        self.loop.queue.add_after(_ALL, _GATHER_SECONDS)

    def _on_kubevirt(self, old: KubeVirt | None, new: KubeVirt | None) -> None:
        if old is None or new is None or (old.spec, old.status.phase) != (new.spec, new.status.phase):
            self._look()

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _version(old) != _version(new):
            self._look()

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        if new is None:
            assert old is not None
            self._told.pop(old.metadata.uid, None)
            self._tried.pop(old.metadata.uid, None)
        if old is None or new is None or _facts(old) != _facts(new):
            self._look()

    def _on_migration(
        self, old: VirtualMachineInstanceMigration | None, new: VirtualMachineInstanceMigration | None
    ) -> None:
        if new is None or new.is_final:
            self._look()

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or has_ended(new):
            self._look()


def _version(node: Node) -> tuple[str | None, bool]:
    """What of a node tells the version of its handler."""
    return node.metadata.annotations.get(VERSION), SCHEDULABLE in node.metadata.labels


def _facts(vmi: VirtualMachineInstance) -> tuple[object, ...]:
    """What of a VMI matters here: nearly all changes of a status do not."""
    meta, state = vmi.metadata, vmi.status.migration_state
    return (
        vmi.status.phase,
        vmi.status.node_name,
        meta.deletion_timestamp,
        meta.annotations.get(LAUNCHER_VERSION),
        UPDATE_ABORTION in meta.annotations,
        OUTDATED_LAUNCHER in meta.labels,
        is_migratable(vmi),
        changes_volumes(vmi),
        needs_other_pod(vmi),
        state is not None and state.is_open,
    )
