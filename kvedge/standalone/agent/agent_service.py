"""The node agent of one box: scheduler and kubelet in one service.

Started by `kvedge standalone` after the embedded API. It knows the API only by its client. What runs is read from
this host before the API is asked, and adopted: killing this process, in whatever way, does not touch a container.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from kvedge.kube.errors import KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.network.errors import NetworkError
from kvedge.network.pods.pod_network_plan import NodeNetworkConfig
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.resources.types.core import Node, Pod
from kvedge.runtime.background import BackgroundThread, on_trouble
from kvedge.runtime.clock import Clock, SystemClock
from kvedge.runtime.services import ServiceError
from kvedge.runtime.settings import DEFAULT_DATA_DIR
from kvedge.standalone.agent.container.container_logs import ContainerLogs
from kvedge.standalone.agent.container.container_sessions import ContainerSessions
from kvedge.standalone.agent.container.container_start import ContainerStarter
from kvedge.standalone.agent.container.container_state import this_boot
from kvedge.standalone.agent.container.container_watch import ContainerWatch
from kvedge.standalone.agent.container.probe_questions import ask
from kvedge.standalone.agent.container.systemd_scopes import pod_cgroups
from kvedge.standalone.agent.node.network_keeper import NetworkKeeper
from kvedge.standalone.agent.node.node_loop import NodeLoop
from kvedge.standalone.agent.node.node_manifest import host_facts
from kvedge.standalone.agent.node.scheduler_loop import SchedulerLoop
from kvedge.standalone.agent.pod.damage_notes import DamageNotes
from kvedge.standalone.agent.pod.damaged_pods import DamagedPods, lose_containers, something_runs
from kvedge.standalone.agent.pod.device_manager import DeviceManager
from kvedge.standalone.agent.pod.image_pulls import ImagePulls
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.log_keeper import LogKeeper
from kvedge.standalone.agent.pod.pod_addresses import PodAddresses
from kvedge.standalone.agent.pod.pod_loop import WORKERS, PodLoop
from kvedge.standalone.agent.pod.pod_place import ApiReader, Places
from kvedge.standalone.agent.pod.pod_probes import PodProbes
from kvedge.standalone.agent.pod.pod_record import PodRecordError
from kvedge.standalone.agent.pod.pod_steps import PodSteps
from kvedge.standalone.agent.pod.resolv_conf_keeper import ResolvConfKeeper
from kvedge.standalone.agent.pod.store_history import StoreHistory
from kvedge.standalone.apiserver.routes.exec_source import ExecRequest, ExecSession
from kvedge.standalone.apiserver.routes.log_source import LogRequest
from kvedge.storage.image_errors import ImageError
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.launcher_image import write_launcher_image

log = logging.getLogger(__name__)

_SYNC_SECONDS: Final = 30.0
_SWEEP_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
# A pass is some calls and some files; one that takes this long hangs.
_STUCK_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Where the agent works: its node's name, the data and the kubelet's directory, the Pods' addresses."""

    node: str
    data_dir: Path
    kubelet: Path
    pod_cidr: str = "10.99.0.0/24"
    # Registries that may be spoken to without https, and that may be on this host itself.
    insecure_registries: frozenset[str] = field(default_factory=frozenset)

    @property
    def instance(self) -> str:
        """What everything of ours on this host is named after, so that two data directories can live side by side."""
        path = self.data_dir.resolve()
        if path == DEFAULT_DATA_DIR:
            return "kvedge0"
        return f"kve-{hashlib.sha256(str(path).encode()).hexdigest()[:6]}"

    @property
    def network(self) -> NodeNetworkConfig:
        """Bridge, tables and namespaces."""
        name = self.instance
        return NodeNetworkConfig(bridge=name, cidr=self.pod_cidr, table=name, netns_prefix=f"{name}-")

    @property
    def pods(self) -> Path:
        """Where Pods are kept."""
        return self.kubelet / "pods"


class NodeAgent:
    """One box's scheduler and kubelet; also the API server's `LogSource` and `ExecSource`."""

    name = "node agent"

    def __init__(
        self,
        config: AgentConfig,
        client: KubeClient,
        image_store: ImageStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._client = client
        self._clock = clock or SystemClock()
        self._store = image_store or ImageStore(config.data_dir / "images")
        self._boot_id = this_boot()
        self._logs = ContainerLogs(config.pods, self._boot_id)
        self._events = EventRecorder(client, "kubelet", config.node)
        self._scheduler_events = EventRecorder(client, "default-scheduler")
        self._starter = ContainerStarter()
        self._cgroups = pod_cgroups(config.instance)
        self._pods = LocalPods(config.pods, partial(something_runs, self._cgroups, self._boot_id))
        self._sessions = ContainerSessions(config.pods, self._boot_id, self._starter)
        self._pod_informer = Informer(client, Pod)
        self._node_informer = Informer(client, Node)
        self._addresses = PodAddresses(client, config.pod_cidr, self._pods.addresses)
        self._damage = DamageNotes(config.data_dir, self._clock)
        self._devices = DeviceManager(config.kubelet / "device-plugins", self._devices_changed)
        self._network = NetworkKeeper(config.network)
        keepers = (LogKeeper(config.pods), ResolvConfKeeper(self._pods), self._network)
        self._rounds = [keeper.rounds for keeper in keepers]
        self._stop = threading.Event()
        self._untell: Callable[[], None] = lambda: None
        self._sweeper: BackgroundThread | None = None
        self._node_loop: NodeLoop | None = None
        self._pod_queue: ReconcileLoop | None = None
        self._scheduler_queue: ReconcileLoop | None = None
        self._pulls: ImagePulls | None = None
        self._watch: ContainerWatch | None = None
        self._probes: PodProbes | None = None

    def start(self) -> None:
        """Adopt what runs, then take part in the API; returns when Pods are bound and run.

        Raises:
            ServiceError: with what is wrong and what to do.
        """
        try:
            self._start()
        except (PodRecordError, NetworkError, ImageError, KubeError) as error:
            raise ServiceError(self.name, str(error)) from error
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            raise ServiceError(self.name, f"{what}{error.strerror or error}") from error

    def stop(self) -> None:
        """Let go of everything; containers run on."""
        self._stop.set()
        self._untell()
        for queue in (self._scheduler_queue, self._pod_queue):
            if queue is not None:
                queue.stop()
        for informer in (self._pod_informer, self._node_informer):
            informer.stop()
        self._addresses.stop()
        if self._node_loop is not None:
            self._node_loop.stop()
        self._devices.stop()
        if self._pulls is not None:
            self._pulls.stop()
        for part in (self._watch, self._probes):
            if part is not None:
                part.stop()
        for rounds in self._rounds:
            rounds.stop()
        self._starter.stop()
        if self._sweeper is not None:
            self._sweeper.join(_STOP_SECONDS)
        for recorder in (self._events, self._scheduler_events):
            recorder.stop()

    def failure(self) -> str | None:
        """Why Pods are no longer taken care of, or None."""
        parts = (
            self._pod_informer,
            self._node_informer,
            self._node_loop,
            self._pod_queue,
            self._scheduler_queue,
            self._watch,
            self._probes,
            self._sweeper,
            *self._rounds,
        )
        if why := next((why for part in parts if part is not None and (why := part.failure())), None):
            return why
        loops = (loop for loop in (self._pod_queue, self._scheduler_queue) if loop is not None)
        stuck = max((loop.busy_seconds() for loop in loops), default=0.0)
        return f"a pass has been stuck for {stuck:.0f} s" if stuck > _STUCK_SECONDS else None

    def summary(self) -> str:
        """How many Pods this node has."""
        count = len(self._pods.uids())
        return f"{count} Pod on this node" if count == 1 else f"{count} Pods on this node"

    def read_log(self, request: LogRequest, stopped: threading.Event) -> Iterator[bytes]:
        """What a container said.

        Raises:
            NoLog: when there is nothing to read from.
        """
        return self._logs.read_log(request, stopped)

    def begin_exec(self, request: ExecRequest) -> ExecSession:
        """Run a command in a container.

        Raises:
            NoExec: when it cannot be run.
        """
        return self._sessions.begin_exec(request)

    def _start(self) -> None:
        config = self._config
        config.pods.mkdir(mode=0o750, parents=True, exist_ok=True)
        # First what runs here; the API is not asked before that is known.
        adopted = self._pods.adopt()
        for local in adopted:
            self._devices.adopt(local.files.uid, local.record.devices)
            if local.record.boot_id != self._boot_id:
                lose_containers(local)
        self._release_images()
        self._import_launcher()
        self._network.make()
        self._starter.prepare()
        for recorder in (self._events, self._scheduler_events):
            recorder.start()
        # One process has one list of listeners: on one box these Events tell of all roles' work.
        self._untell = on_trouble(self._tell_trouble)
        self._start_loops(adopted)

    def _start_loops(self, adopted: list[LocalPod]) -> None:
        config = self._config
        facts = host_facts(config.node, config.data_dir)
        self._devices.start()
        self._node_loop = NodeLoop(self._client, facts, config.pod_cidr, self._devices, self._all_notes, self._clock)
        self._node_loop.start()
        for informer in (self._node_informer, self._pod_informer):
            informer.start()
        self._addresses.start()
        pod_loop = self._make_pod_loop(facts.address, facts.memory)
        scheduler = self._make_scheduler()
        synced = (self._node_informer.wait_synced, self._pod_informer.wait_synced, self._addresses.wait_synced)
        if not all(wait(_SYNC_SECONDS) for wait in synced):
            raise ServiceError(self.name, f"the API at {self._client.host} did not list Pods and Nodes in time")
        adopted += DamagedPods(self._pods, self._boot_id, self._cgroups, pod_loop, self._damage).make_known()
        # What there is to tell of them.
        self._node_loop.changed()
        for rounds in self._rounds:
            rounds.start()
        pod_loop.watch.start()
        pod_loop.probes.start()
        pod_loop.loop.start()
        for local in adopted:
            pod_loop.loop.add(local.key)
        self._pod_informer.on_change(pod_loop.on_pod)
        scheduler.loop.start()
        self._pod_informer.on_change(scheduler.on_pod)
        self._node_informer.on_change(scheduler.on_node)
        self._sweeper = BackgroundThread("address-sweep", self._sweep)
        self._sweeper.start()

    def _make_pod_loop(self, address: str, memory: int) -> PodLoop:
        config = self._config

        # The queue and what fills it need each other: each is told of the other by name when it runs.
        queue = self._pod_queue = ReconcileLoop("pods", lambda key: made.reconcile(key), WORKERS)
        pulls = self._pulls = ImagePulls(
            self._store, self._client, self._events, queue.add_after, config.insecure_registries
        )
        watch = self._watch = ContainerWatch(queue.add)
        probes = self._probes = PodProbes(self._events, partial(ask, self._starter), queue.add)
        steps = PodSteps(
            client=self._client,
            events=self._events,
            pods=self._pods,
            places=Places(config.network, self._cgroups, ApiReader(self._client), memory),
            pulls=pulls,
            devices=self._devices,
            starter=self._starter,
            boot_id=self._boot_id,
            host_address=address,
            write_status=lambda local: made.write_status(local),
        )
        made = PodLoop(
            node_name=config.node,
            host_address=address,
            boot_id=self._boot_id,
            informer=self._pod_informer,
            pods=self._pods,
            addresses=self._addresses,
            steps=steps,
            probes=probes,
            watch=watch,
            clock=self._clock,
            loop=queue,
            history=StoreHistory(self._client, self._pod_informer),
        )
        return made

    def _make_scheduler(self) -> SchedulerLoop:
        queue = self._scheduler_queue = ReconcileLoop("scheduler", lambda key: made.reconcile(key))
        made = SchedulerLoop(
            node_name=self._config.node,
            client=self._client,
            pods=self._pod_informer,
            nodes=self._node_informer,
            events=self._scheduler_events,
            clock=self._clock,
            loop=queue,
            began=self._clock.now(),
        )
        return made

    def _release_images(self) -> None:
        """Pods that went while the agent was away hold their images no more."""
        # The list reads every record, so that a damaged one is put aside and reported now, not when a Pod needs it.
        self._store.list()
        for refused in self._store.newer():
            # Their VMs wait for the newer kvedge; the others run.
            self._damage.tell(str(refused))
        for user in self._store.users() - self._pods.uids():
            self._store.release(user)

    def _import_launcher(self) -> None:
        """The launcher's image, unless it is there."""
        # The agent starts without the readers of archives, which this alone needs.
        from kvedge.storage.images.image_import import import_file

        with self._store.staging() as staging:
            archive = staging / "launcher.tar"
            write_launcher_image(archive)
            import_file(self._store, archive, LAUNCHER_IMAGE)

    def _all_notes(self) -> list[str]:
        return [*self._network.notes(), *self._cgroups.notes(), *self._damage.notes(), *self._store_notes()]

    def _store_notes(self) -> list[str]:
        damaged = self._store.damaged()
        if not damaged:
            return []
        return [f"{len(damaged)} damaged files of the image store were put aside, such as {damaged[0]}: see the log"]

    def _devices_changed(self) -> None:
        if self._node_loop is not None:
            self._node_loop.changed()

    def _tell_trouble(self, work: str, what: str) -> None:
        # Events of a Node carry its name as the UID, as those of a kubelet do.
        node = Node(metadata=ObjectMeta(name=self._config.node, uid=self._config.node))
        self._events.record(node, "Warning", "BackgroundWorkFailed", f"{work}: {what}; it begins anew")

    def _sweep(self) -> None:
        """Give addresses back when their owners go; now and then also those whose end nobody saw."""
        swept = self._clock.monotonic()
        while not self._stop.is_set():
            try:
                self._addresses.release_next(_SWEEP_SECONDS)
                if self._clock.monotonic() - swept >= _SWEEP_SECONDS:
                    swept = self._clock.monotonic()
                    self._addresses.sweep()
            except KubeError as error:
                log.warning("addresses were not looked through", extra={"facts": {"error": str(error)}})
