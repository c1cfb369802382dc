"""What a controller does while it is the one: informers, and loops that start once everything is known.

Made by `controller_service` when this controller leads, and ended when it does no more. Talks to one API server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kvedge.controller.alarms.alarm_board import AlarmBoard
from kvedge.controller.alarms.alarm_loop import AlarmLoop, AlarmSources
from kvedge.controller.alarms.words.teller_desk import TellerDesk, WordPlaces
from kvedge.controller.datavolumes.data_volume_work import DataVolumeWork
from kvedge.controller.evacuation.evacuation_loop import make_evacuation_work
from kvedge.controller.fencing.fence_loop import FenceLoop, FenceSources
from kvedge.controller.fencing.fence_status import judge_fencing
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.kubevirt.common_types_loop import CommonTypesLoop
from kvedge.controller.kubevirt.kubevirt_loop import KubeVirtLoop, KubeVirtSources
from kvedge.controller.kubevirt.kubevirt_status import Release
from kvedge.controller.late_work import LateWork
from kvedge.controller.migrations.migration_loop import make_migration_work
from kvedge.controller.migrations.target_creation import MigrationSources
from kvedge.controller.node.node_loop import NodeLoop, NodeSources
from kvedge.controller.node.remediations import Remediations
from kvedge.controller.pools.pool_loop import make_pool_work
from kvedge.controller.protection_work import ProtectionSources, make_protection_work
from kvedge.controller.replicas.replica_loop import make_replica_work
from kvedge.controller.vm.type_keeper import TypeSettings
from kvedge.controller.vm.vm_actions import Rollout
from kvedge.controller.vm.vm_loop import VmLoop, VmSources
from kvedge.controller.vmi.claim_holders import ClaimHolders
from kvedge.controller.vmi.hotplug.hotplug_loop import HotplugLoop, HotplugSources
from kvedge.controller.vmi.vmi_loop import VmiLoop
from kvedge.controller.vmi.vmi_steps import VmiSources
from kvedge.controller.workloads.workload_loop import WorkloadSources, make_workload_work
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.configuration.configuration_bindings import live_plugins
from kvedge.resources.configuration.feature_gates import DECLARATIVE_HOTPLUG, HOTPLUG_VOLUMES
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.meta import Condition
from kvedge.resources.names import APP
from kvedge.resources.node_loss.node_lease import NODES_NAMESPACE, OF_NODE
from kvedge.resources.node_loss.remediations import SelfNodeRemediation
from kvedge.resources.types.core import ConfigMap, Node, Pod
from kvedge.resources.types.migrations import MigrationPolicy, VirtualMachineInstanceMigration
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock
from kvedge.runtime.logs import set_verbosity
from kvedge.runtime.role import Part, Parts, part, unfailing

log = logging.getLogger(__name__)

_SYNC_POLL_SECONDS: Final = 0.2
# How long a new controller waits to learn the configuration before it plans by defaults.
_CONFIGURATION_SECONDS: Final = 5.0


class ControllerWork:
    """Everything that runs while this controller is the one."""

    def __init__(
        self, client: KubeClient, events: EventRecorder, config: ClusterConfig, clock: Clock, words: WordPlaces
    ) -> None:
        """`client` writes only while we lead; what happened may be told even after."""
        self._vms = Informer(client, VirtualMachine)
        self._vmis = Informer(client, VirtualMachineInstance)
        self._pods = Informer(client, Pod, label_selector=f"{APP}=virt-launcher")
        self._attachments = Informer(client, Pod, label_selector=f"{APP}={ATTACHMENT_APP}")
        self._nodes = Informer(client, Node)
        self._claims = Informer(client, PersistentVolumeClaim)
        self._events = events
        self._config = config
        self._configuration = ConfigurationFollower(client, "controller")
        self._configuration.on_change(lambda found: set_verbosity("controller", found.log_levels.controller))
        self._data_volumes = DataVolumeWork(
            client,
            (self._claims, self._vmis, self._vms),
            self._events,
            clock,
            self._read_config,
        )
        self._vm_loop = self._make_vm_loop(client, clock)
        self._replicas = make_replica_work(client, self._vmis, self._events, clock)
        self._pools = make_pool_work(client, self._vms, self._vmis, self._events, clock)
        migrations = Informer(client, VirtualMachineInstanceMigration)
        emptied = (migrations, self._vmis, self._pods, self._nodes)
        self._evacuation = make_evacuation_work(
            client, emptied, (self._vms, self._claims), self._events, clock, self._configuration
        )
        self._remediations = Informer(client, SelfNodeRemediation)
        remediations = Remediations(self._remediations)
        self._node_loop = NodeLoop(NodeSources(client, self._nodes, self._events, clock, remediations.is_reset))
        remediations.on_change(self._node_loop.look_at)
        leases = Informer(client, ConfigMap, NODES_NAMESPACE, label_selector=f"{OF_NODE}=true")
        self._fence_loop = FenceLoop(FenceSources(client, leases, self._events, clock))
        # Its rights may be missing while a cluster is upgraded: nothing waits for it.
        self._fencing = LateWork("fencing", (leases,), (), self._fence_loop)
        holders, cdi = ClaimHolders(self._vmis, self._pods, self._attachments), self._data_volumes.cdi_config
        self._vmi_loop = VmiLoop(
            VmiSources(
                client,
                self._vmis,
                self._pods,
                self._claims,
                cdi,
                holders,
                self._events,
                clock,
                self._node_loop.state,
                self._vms,
                self._fence_loop,
                self._node_loop.choose_tsc_frequency,
            ),
            self._read_config,
        )
        self._migrations = self._make_migration_work(client, migrations, holders, clock)
        self._protection = make_protection_work(
            ProtectionSources(
                client,
                self._vms,
                self._vmis,
                self._pods,
                self._attachments,
                self._claims,
                self._data_volumes.data_volumes,
                self._events,
                clock,
                self._read_config,
                cdi,
                self._configuration,
            )
        )
        self._hotplug_loop = HotplugLoop(
            HotplugSources(
                client,
                self._vmis,
                self._pods,
                self._attachments,
                self._claims,
                cdi,
                holders,
                self._events,
                clock,
                self._read_config,
            )
        )
        self._node_loop.on_change(self._vmi_loop.note_node_change)
        self._fence_loop.on_change(self._vmi_loop.note_node_change)
        # Hotplugged volumes follow: they are looked at whenever their VMI has changed.
        self._data_volumes.on_cdi_config(self._vmi_loop.note_cdi_config_change)
        self._workloads, updates = make_workload_work(
            WorkloadSources(
                client,
                *emptied,
                self._configuration,
                self._events,
                clock,
                self._config.version,
                self._node_loop.versions,
            )
        )
        self._kubevirt_loop = self._make_kubevirt_loop(client, clock, updates.read_report)
        updates.on_report(self._kubevirt_loop.look_again)
        watched = (self._vms, self._vmis, self._nodes, self._claims)
        board = AlarmBoard()
        self._tellers = TellerDesk(client, board, words, clock)
        sources = AlarmSources(client, *watched, self._node_loop, self._events, clock)
        self._alarms = AlarmLoop(sources, board, self._tellers.names)
        self._common_types = CommonTypesLoop(client, self._wants_common_types)
        self._configuration.on_change(lambda found: self._common_types.look_again())
        self._configuration.on_change(self._vmi_loop.note_configuration)
        self._informers: dict[str, Informer[Any]] = {
            "attachment pods": self._attachments,
            "claims": self._claims,
            "nodes": self._nodes,
            "pods": self._pods,
            "VMIs": self._vmis,
            "VMs": self._vms,
        }
        self._loops: dict[str, NodeLoop | KubeVirtLoop | VmiLoop | HotplugLoop | VmLoop] = {
            "node loop": self._node_loop,
            "KubeVirt loop": self._kubevirt_loop,
            "VMI loop": self._vmi_loop,
            "hotplug loop": self._hotplug_loop,
            "VM loop": self._vm_loop,
        }
        # The loops that have not started yet, the one that failed first: those that have started are not begun anew.
        self._to_start = deque(self._loops.values())
        self._stopped = threading.Event()
        self._starter = BackgroundThread("controller-start", self._start_loops)
        self._parts = Parts(self._make_parts())

    def start(self) -> None:
        """Begin to list; the loops follow when everything is known, as a plan on half a world is a wrong one."""
        self._parts.start()

    def stop(self) -> None:
        """End all threads."""
        # First, so that no loop begins while the parts that started last are stopped.
        self._stopped.set()
        self._parts.stop()

    def _read_config(self) -> ClusterConfig:
        """The configuration in force: ours, with what the KubeVirt object and the nodes say."""
        return self._config.with_configuration(self._configuration.current, self._nodes.list())

    def _make_migration_work(
        self,
        client: KubeClient,
        migrations: Informer[VirtualMachineInstanceMigration],
        holders: ClaimHolders,
        clock: Clock,
    ) -> LateWork:
        return make_migration_work(
            MigrationSources(
                client,
                migrations,
                Informer(client, MigrationPolicy),
                self._vmis,
                self._pods,
                self._claims,
                self._attachments,
                self._nodes,
                holders,
                self._events,
                clock,
                self._node_loop.versions,
                lambda: self._configuration.current.migrations,
                self._read_config,
            )
        )

    def _make_vm_loop(self, client: KubeClient, clock: Clock) -> VmLoop:
        sources = VmSources(
            client,
            self._vms,
            self._vmis,
            self._data_volumes.data_volumes,
            self._claims,
            self._nodes,
            self._events,
            clock,
            self._is_declarative,
            lambda: live_plugins(self._configuration.current.bindings),
            self._data_volumes.cdi_config,
            self._read_type_settings,
            self._read_rollout,
        )
        return VmLoop(sources)

    def _wants_common_types(self) -> bool | None:
        # A cluster that was never asked for any is not asked whether there are some.
        said = self._configuration.current.common_types
        return said if said is not None else self._config.brings_common_types or None

    def _read_type_settings(self) -> TypeSettings:
        current = self._configuration.current
        return TypeSettings(current.reference_policy, current.default_interface)

    def _make_kubevirt_loop(
        self, client: KubeClient, clock: Clock, launchers: Callable[[], Condition | None]
    ) -> KubeVirtLoop:
        sources = KubeVirtSources(
            client,
            self._configuration,
            self._vmis,
            self._events,
            clock,
            self._node_loop.has_schedulable,
            self._node_loop.versions,
            launchers,
            lambda annotations: judge_fencing(annotations, self._fence_loop.list_fences()),
        )
        return KubeVirtLoop(sources, Release(self._config.version, self._config.default_architecture))

    def _make_parts(self) -> list[Part]:
        watching = [part(name, informer) for name, informer in self._informers.items()]
        known = (*self._informers, "configuration")
        # The starter begins them, once everything is known; here they stop, after it, and say themselves what failed.
        loops = [
            Part(name, stop=each.stop, failure=each.loop.failure, needs=known) for name, each in self._loops.items()
        ]
        return [
            unfailing("events", self._events),
            *watching,
            part("configuration", self._configuration),
            *loops,
            Part("start of the loops", self._starter.start, self._stop_starting, needs=tuple(self._loops)),
            part("datavolumes", self._data_volumes, *known),
            part("fencing", self._fencing, *known),
            # Medik8s may be installed some day, or never.
            part("remediations", self._remediations, *known),
            part("common instance types", self._common_types, *known),
            part("alarms", self._alarms, *known),
            part("tellers of alarms", self._tellers, "alarms"),
            part("replicas", self._replicas, *known),
            part("pools", self._pools, *known),
            part("evacuation", self._evacuation, *known),
            part("workloads", self._workloads, *known),
            part("migrations", self._migrations, *known),
            *(part(name, work, *known) for name, work in self._protection.items()),
        ]

    def _read_rollout(self) -> Rollout:
        current = self._configuration.current
        is_alone = len(self._nodes.list()) == 1
        migrates = current.workload_updates.live_migrate
        versions = self._node_loop.versions()
        others = frozenset(node for node, version in versions.items() if version != self._config.version)
        live = current.live_updates
        return Rollout(live.is_on, current.cpu_allocation_ratio, is_alone, migrates, others, live.is_said)

    def _is_declarative(self) -> bool:
        # The deprecated gate leaves a run's volumes to the callers of addvolume.
        gates = self._configuration.current.gates
        return gates.is_on(DECLARATIVE_HOTPLUG) and not gates.is_on(HOTPLUG_VOLUMES)

    def _stop_starting(self) -> None:
        # The loops may not have begun, and stop all the same.
        self._stopped.set()
        self._starter.join(2 * _SYNC_POLL_SECONDS)

    @property
    def is_synced(self) -> bool:
        """Whether everything was listed."""
        return self.wait_synced(0)

    def wait_synced(self, timeout: float) -> bool:
        """Whether everything was listed within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        return all(informer.wait_synced(max(0.0, deadline - time.monotonic())) for informer in self._informers.values())

    @property
    def trouble(self) -> str:
        """With what the start of the loops fails again and again; it is tried on, as a new process would fail too."""
        late = (
            self._replicas,
            self._pools,
            self._evacuation,
            self._migrations,
            self._workloads,
            *self._protection.values(),
        )
        troubles = (self._starter.trouble, self._data_volumes.trouble, *(each.trouble for each in late))
        return next((trouble for trouble in troubles if trouble), "")

    def failure(self) -> str | None:
        """Why a part no longer works, or None."""
        return self._parts.failure()

    def _start_loops(self) -> None:
        while not self.wait_synced(_SYNC_POLL_SECONDS):
            if self._stopped.is_set():
                return
        # Without the object's CRD this waits in vain; defaults hold then.
        self._configuration.wait(_CONFIGURATION_SECONDS)
        while self._to_start:
            self._to_start[0].start()
            self._to_start.popleft()
        log.info("controller works", extra={"facts": {"vms": len(self._vms.list()), "vmis": len(self._vmis.list())}})
