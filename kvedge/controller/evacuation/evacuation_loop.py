"""Makes a migration for each guest that is to leave its node; one pass looks at one node.

Run by the controller role. Reads nodes, VMIs, migrations and launcher Pods from informers, asks `evacuation_plan`, and
makes what it says. The answer of each write goes into the cache, so that the next pass knows the migration. Should an
answer be lost, admission refuses a second one beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.controller.evacuation.claim_exchange import ClaimExchange
from kvedge.controller.evacuation.evacuation_plan import Rules, make_migration, plan_evacuation
from kvedge.controller.guest_moves import Guest, Wait
from kvedge.controller.late_work import LateWork
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.evacuation import has_drain_taint, is_marked, is_migratable
from kvedge.resources.moves.disk_moves import can_move_with_disks
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# The guest's own and another one.
_ENOUGH_NODES: Final = 2
_ON_NODE: Final = "evacuation-node"
_OF_VMI: Final = "evacuation-vmi"


class EvacuationSources(Struct, frozen=True):
    """The informers and writers that the loop works with; `rules` says what the KubeVirt object wants now."""

    client: KubeClient
    migrations: Informer[VirtualMachineInstanceMigration]
    vmis: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    nodes: Informer[Node]
    exchange: ClaimExchange
    events: EventRecorder
    clock: Clock
    rules: Callable[[], Rules]


def make_evacuation_work(
    client: KubeClient,
    shared: tuple[
        Informer[VirtualMachineInstanceMigration], Informer[VirtualMachineInstance], Informer[Pod], Informer[Node]
    ],
    disks: tuple[Informer[VirtualMachine], Informer[PersistentVolumeClaim]],
    events: EventRecorder,
    clock: Clock,
    configuration: ConfigurationFollower,
) -> LateWork:
    """What empties nodes. All that is shared is started and stopped by others, and has not been started yet."""

    def read_rules() -> Rules:
        found = configuration.current
        limits = found.migrations
        return Rules(limits.node_drain_taint_key, found.eviction_strategy, limits.parallel_per_node)

    exchange = ClaimExchange(client, *disks, events)
    loop = EvacuationLoop(EvacuationSources(client, *shared, exchange, events, clock, read_rules))
    configuration.on_change(lambda found: loop.note_rules_change())
    return LateWork("evacuation", (), (*shared, *disks), loop)


class EvacuationLoop:
    """One reconcile loop over all nodes."""

    def __init__(self, sources: EvacuationSources) -> None:
        """The informers have not been started yet."""
        self._client = sources.client
        self._migrations = sources.migrations
        self._vmis = sources.vmis
        self._pods = sources.pods
        self._nodes = sources.nodes
        self._exchange = sources.exchange
        self._events = sources.events
        self._clock = sources.clock
        self._rules = sources.rules
        # By the VMI's UID: the failed migration of which its user was told.
        self._told: dict[str, str] = {}
        self._vmis.add_index(_ON_NODE, lambda vmi: (vmi.status.node_name,) if vmi.status.node_name else ())
        self._migrations.add_index(_OF_VMI, lambda each: (f"{each.metadata.namespace}/{each.spec.vmi_name}",))
        self.loop = ReconcileLoop("evacuation", self.reconcile)
        self._nodes.on_change(self._on_node)
        self._vmis.on_change(self._on_vmi)
        self._migrations.on_change(self._on_migration)
        self._pods.on_change(self._on_pod)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one node.

        Raises:
            KubeError: when the server refuses a migration; the pass is repeated, later each time.
        """
        node = self._nodes.get("", key.name)
        if node is None:
            return None
        guests = [self._view(vmi) for vmi in self._vmis.find_indexed(_ON_NODE, key.name)]
        rules = self._rules()
        if len(self._nodes.list()) < _ENOUGH_NODES:
            # No claims are made for disks that have nowhere to go.
            rules = replace(rules, per_node=0)
        plan = plan_evacuation(node, guests, rules, self._clock.now())
        for wait in plan.wait:
            self._tell_wait(wait)
        # All are tried: one that is refused keeps no other from leaving.
        done = [self._create(vmi, key.name) for vmi in plan.move]
        done += [self._exchange.begin(vmi) for vmi in plan.exchange]
        refusals = [refusal for refusal in done if refusal is not None]
        if refusals:
            raise refusals[0]
        return None if plan.again_after is None else Again(plan.again_after)

    def note_rules_change(self) -> None:
        """Look at all nodes again: the KubeVirt object wants something else."""
        for node in self._nodes.list():
            self.loop.add(Key("", node.metadata.name))

    def _view(self, vmi: VirtualMachineInstance) -> Guest:
        name = f"{vmi.metadata.namespace}/{vmi.metadata.name}"
        pods = [pod for pod in self._pods.find_owned_by(vmi.metadata.uid) if not has_ended(pod)]
        found = self._migrations.find_indexed(_OF_VMI, name)
        return Guest(vmi, found, len(pods), exchange=self._exchange.judge(vmi))

    def _create(self, vmi: VirtualMachineInstance, node: str) -> KubeError | None:
        """Make a migration; the refusal, or None."""
        try:
            created = self._client.create(make_migration(vmi, node))
        except NotFound as error:
            # The namespace goes, and the VMI with it.
            log.debug("no migration made", extra={"facts": {"vmi": vmi.metadata.name, "error": str(error)}})
            return None
        except KubeError as error:
            if not is_passing(error):
                self._events.record(vmi, "Warning", "FailedCreate", f"Error creating a Migration: {error}")
            return error
        self._migrations.observe(created)
        self._told.pop(vmi.metadata.uid, None)
        self._events.record(vmi, "Normal", "SuccessfulCreate", f"Created Migration {created.metadata.name}")
        return None

    def _tell_wait(self, wait: Wait) -> None:
        meta = wait.vmi.metadata
        if self._told.get(meta.uid) != wait.last:
            self._told[meta.uid] = wait.last
            text = f"backoff migrating vmi {meta.namespace}/{meta.name}"
            self._events.record(wait.vmi, "Warning", "MigrationBackoff", text)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or old.spec.taints != new.spec.taints):
            self.loop.add(Key("", new.metadata.name))

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        if new is None:
            assert old is not None
            self._told.pop(old.metadata.uid, None)
            self._exchange.forget(old.metadata.uid)
        elif old is None or _facts(old) != _facts(new):
            self._look_at(new)

    def _on_migration(
        self, old: VirtualMachineInstanceMigration | None, new: VirtualMachineInstanceMigration | None
    ) -> None:
        item = new or old
        assert item is not None
        # While it runs nobody else begins; what is new of it then matters to nobody here.
        if new is None or new.is_final:
            vmi = self._vmis.get(item.metadata.namespace, item.spec.vmi_name)
            if vmi is not None:
                self._look_at(vmi)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is not None and (new is None or has_ended(new)):
            vmi = self._vmis.get(item.metadata.namespace, owner.name)
            if vmi is not None:
                self._look_at(vmi)

    def _look_at(self, vmi: VirtualMachineInstance) -> None:
        """Look at the node of a VMI, if that guest may be about to leave it."""
        name = vmi.status.node_name
        node = self._nodes.get("", name) if name else None
        if node is not None and (is_marked(vmi) or has_drain_taint(node, self._rules().taint_key)):
            self.loop.add(Key("", name))


def _facts(vmi: VirtualMachineInstance) -> tuple[object, ...]:
    """What of a VMI matters here: nearly all changes of a status do not."""
    status = vmi.status
    return (
        status.node_name,
        status.evacuation_node_name,
        vmi.is_final,
        vmi.metadata.deletion_timestamp,
        is_migratable(vmi),
        can_move_with_disks(vmi),
        status.migration_state is not None and status.migration_state.is_open,
    )
