"""The node agent of one box: scheduler and kubelet in one service.

Started by `kvedge standalone` after the embedded API. It knows the API only by its client. What runs is read from
this host before the API is asked, and adopted: killing this process, in whatever way, does not touch a container.
"""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from kvedge.kube.errors import KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.node_troubles import NodeTroubles
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import WorkQueue
from kvedge.network.errors import NetworkError
from kvedge.network.nics.nic_journal import nics_path
from kvedge.network.pods.attachments import NodeNetworkConfig, netns_name
from kvedge.resources.names import GUESTFS_IMAGE, LAUNCHER_IMAGE
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.runtime.address_ranges import address_ranges
from kvedge.runtime.clock import Clock, SystemClock
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.runtime.role import Part, Parts, part, unfailing
from kvedge.runtime.rounds import Rounds
from kvedge.runtime.services import ServiceError
from kvedge.runtime.settings import DEFAULT_DATA_DIR
from kvedge.standalone.agent.container.container_logs import ContainerLogs
from kvedge.standalone.agent.container.container_sessions import ContainerSessions
from kvedge.standalone.agent.container.container_start import ContainerStarter
from kvedge.standalone.agent.container.container_watch import ContainerWatch
from kvedge.standalone.agent.container.probe_questions import ask
from kvedge.standalone.agent.container.systemd_scopes import pod_cgroups
from kvedge.standalone.agent.node.network_keeper import NetworkKeeper
from kvedge.standalone.agent.node.node_loop import NodeLoop
from kvedge.standalone.agent.node.node_manifest import HostFacts, has_guestfs, read_host_facts
from kvedge.standalone.agent.node.schedule_plan import room_reasons
from kvedge.standalone.agent.node.scheduler_loop import FollowedStorage, SchedulerLoop
from kvedge.standalone.agent.node.usage_meter import UsageMeter
from kvedge.standalone.agent.pod.address_sweep import AddressSweep
from kvedge.standalone.agent.pod.damage_notes import DamageNotes
from kvedge.standalone.agent.pod.damaged_pods import DamagedPods, lose_containers, something_runs
from kvedge.standalone.agent.pod.image_pulls import ImagePulls
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.log_keeper import LogKeeper
from kvedge.standalone.agent.pod.place.cpu_pool import CpuPool
from kvedge.standalone.agent.pod.place.device_manager import DeviceManager
from kvedge.standalone.agent.pod.place.pod_place import ApiReader, Places
from kvedge.standalone.agent.pod.place.pod_sockets import open_pod_socket
from kvedge.standalone.agent.pod.pod_addresses import PodAddresses
from kvedge.standalone.agent.pod.pod_loop import WORKERS, PodLoop
from kvedge.standalone.agent.pod.pod_probes import PodProbes
from kvedge.standalone.agent.pod.pod_record import PodRecordError
from kvedge.standalone.agent.pod.pod_resizing import Resizing
from kvedge.standalone.agent.pod.pod_steps import PodSteps
from kvedge.standalone.agent.pod.resolv_conf_keeper import ResolvConfKeeper
from kvedge.standalone.agent.pod.store_history import StoreHistory
from kvedge.standalone.agent.pod.volume_keeper import VolumeKeeper
from kvedge.standalone.agent.warm.warm_starts import WarmStarts
from kvedge.standalone.apiserver.routes.exec_source import ExecRequest, ExecSession
from kvedge.standalone.apiserver.routes.log_source import LogRequest
from kvedge.storage.image_errors import ImageError
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.launcher_image import write_guestfs_image, write_launcher_image

_SYNC_SECONDS: Final = 30.0
_LISTS: Final = ("nodes", "pods", "addresses", "claims", "persistent volumes", "storage classes")


class AgentConfig(Struct, frozen=True):
    """Where the agent works: its node's name, the data and the kubelet's directory, the Pods' addresses."""

    node: str
    data_dir: Path
    kubelet: Path
    # One range, or one of IPv4 and one of IPv6 with a comma between them.
    pod_cidr: str = "10.99.0.0/24"
    # Registries that may be spoken to without https, and that may be on this host itself.
    insecure_registries: frozenset[str] = field(default_factory=frozenset)
    # The address at which Pods may ask for names of VMs and Services; empty for none.
    name_server: str = ""
    # CPUs of this host for guests that have them for themselves.
    dedicated_cpus: frozenset[int] = frozenset()
    # Launchers are copies of one warmed process, from where that pays.
    warm_launchers: bool = False

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
        name, ranges = self.instance, address_ranges(self.pod_cidr)
        return NodeNetworkConfig(
            bridge=name, cidr=ranges.ipv4, ipv6_cidr=ranges.ipv6, table=name, netns_prefix=f"{name}-"
        )

    @property
    def authority(self) -> Path:
        """The certificate by which clients know this box's API."""
        return self.data_dir / "state" / "pki" / "server-ca.crt"

    @property
    def pods(self) -> Path:
        """Where Pods are kept."""
        return self.kubelet / "pods"


class _Followed(Struct, frozen=True, kw_only=True):
    """What the agent sees of the API, and where it tells what happened."""

    events: EventRecorder
    scheduler_events: EventRecorder
    pods: Informer[Pod]
    nodes: Informer[Node]
    addresses: PodAddresses
    storage: FollowedStorage


class _PodWork(Struct, frozen=True):
    """The loop that runs Pods, and what runs beside it."""

    made: PodLoop
    pulls: ImagePulls
    loop: ReconcileLoop

    def parts(self, adopted: list[LocalPod]) -> list[Part]:
        """Its parts; `adopted` are the Pods that are looked at first."""
        needs = ("damaged Pods", "container watch", "probes", "images", "container starter", "events")
        return [
            Part("image pulls", stop=self.pulls.stop),
            part("container watch", self.made.watch, "damaged Pods"),
            part("probes", self.made.probes, "damaged Pods"),
            Part("pod loop", partial(self._start, adopted), self.loop.stop, self.loop.failure, needs),
        ]

    def _start(self, adopted: list[LocalPod]) -> None:
        self.loop.start()
        for local in adopted:
            self.loop.add(local.key)
        self.made.informer.on_change(self.made.on_pod)


class NodeAgent:
    """One box's scheduler and kubelet; also the API server's source of logs, commands and sockets. `usage` measures."""

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
        self._boot_id = read_boot_id()
        self._logs = ContainerLogs(config.pods, self._boot_id)
        self._starter = ContainerStarter()
        self._warm = WarmStarts(self._starter) if config.warm_launchers else None
        self._cpus = CpuPool(config.dedicated_cpus, config.kubelet)
        self._cgroups = pod_cgroups(config.instance, with_cpus=bool(config.dedicated_cpus))
        self._pods = LocalPods(config.pods, partial(something_runs, self._cgroups, self._boot_id))
        self._sessions = ContainerSessions(config.pods, self._boot_id, self._starter)
        self._damage = DamageNotes(config.data_dir, self._clock)
        self.usage = UsageMeter(config.node, self._cgroups, self._clock.now)
        self._parts = Parts()

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
        self._parts.stop()

    def failure(self) -> str | None:
        """Why Pods are no longer taken care of, or None."""
        return self._parts.failure()

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

    def open_socket(self, pod_uid: str, family: socket.AddressFamily) -> socket.socket:
        """A socket in a Pod's network.

        Raises:
            NoForward: when it has none.
        """
        return open_pod_socket(netns_name(self._config.network, pod_uid), family)

    def _start(self) -> None:
        if wrong := self._cpus.check():
            raise ServiceError(self.name, wrong)
        self._config.pods.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._cpus.tell()
        # First what runs here; the API is not asked before that is known.
        adopted = self._pods.adopt()
        self._parts = Parts(self._make_parts(adopted))
        self._parts.start()

    def _make_parts(self, adopted: list[LocalPod]) -> list[Part]:
        config, client = self._config, self._client
        followed = _Followed(
            events=EventRecorder(client, "kubelet", config.node),
            scheduler_events=EventRecorder(client, "default-scheduler"),
            pods=Informer(client, Pod),
            nodes=Informer(client, Node),
            addresses=PodAddresses(
                client, config.network.cidr, self._pods.addresses, ipv6_cidr=config.network.ipv6_cidr
            ),
            storage=FollowedStorage(
                Informer(client, PersistentVolumeClaim),
                Informer(client, PersistentVolume),
                Informer(client, StorageClass),
            ),
        )
        facts = read_host_facts(config.node, config.data_dir)
        network = NetworkKeeper(config.network, nics_path(config.data_dir))
        devices = DeviceManager(config.kubelet / "device-plugins", lambda: node_loop.note_change())
        notes = partial(self._all_notes, network)
        node_loop = NodeLoop(client, facts, config.pod_cidr, devices, notes, self._clock)
        pods = self._make_pod_work(followed, devices, facts)
        return [
            Part("adopted Pods", partial(self._adopt, adopted, devices)),
            Part("images", self._prepare_images),
            Part("node network", network.make),
            Part("container starter", self._starter.prepare, self._starter.stop),
            *([Part("warm launchers", stop=self._warm.stop, needs=("container starter",))] if self._warm else []),
            unfailing("events", followed.events),
            unfailing("scheduler events", followed.scheduler_events),
            # One process has one list of listeners: on one box these Events tell of all roles' work.
            unfailing("troubles", NodeTroubles(followed.events, config.node), "events"),
            part("device manager", devices, "adopted Pods"),
            part("node", node_loop, "device manager", "node network"),
            part("nodes", followed.nodes),
            part("pods", followed.pods),
            unfailing("addresses", followed.addresses),
            part("claims", followed.storage.claims),
            part("persistent volumes", followed.storage.volumes),
            part("storage classes", followed.storage.classes),
            Part("lists", partial(self._wait_synced, followed), needs=_LISTS),
            Part("damaged Pods", partial(self._know_damaged, pods, adopted, node_loop), needs=("lists", "node")),
            *(part(rounds.name, rounds) for rounds in self._keepers(network)),
            *pods.parts(adopted),
            *self._scheduler_parts(followed),
            part("address sweep", AddressSweep(followed.addresses, self._clock), "lists"),
        ]

    def _adopt(self, adopted: list[LocalPod], devices: DeviceManager) -> None:
        for local in adopted:
            devices.adopt(local.files.uid, local.record.devices)
            self._cpus.adopt(local.files.uid, local.record.cpus)
            if local.record.boot_id != self._boot_id:
                lose_containers(local)

    def _prepare_images(self) -> None:
        self._release_images()
        self._import_launcher()

    def _wait_synced(self, followed: _Followed) -> None:
        storage = followed.storage
        listed = (followed.nodes, followed.pods, storage.claims, storage.volumes, storage.classes)
        waits = (*(informer.wait_synced for informer in listed), followed.addresses.wait_synced)
        if not all(wait(_SYNC_SECONDS) for wait in waits):
            raise ServiceError(self.name, f"the API at {self._client.host} did not list Pods and Nodes in time")

    def _know_damaged(self, pods: _PodWork, adopted: list[LocalPod], node_loop: NodeLoop) -> None:
        adopted += DamagedPods(self._pods, self._boot_id, self._cgroups, pods.made, self._damage).make_known()
        # What there is to tell of them.
        node_loop.note_change()

    def _keepers(self, network: NetworkKeeper) -> list[Rounds]:
        return [
            LogKeeper(self._config.pods).rounds,
            ResolvConfKeeper(self._pods, own_server=self._config.name_server).rounds,
            VolumeKeeper(self._pods, ApiReader(self._client, self._config.authority)).rounds,
            network.rounds,
        ]

    def _make_pod_work(self, followed: _Followed, devices: DeviceManager, facts: HostFacts) -> _PodWork:
        config = self._config
        # There before those that fill it, and before the loop, which needs them.
        queue = WorkQueue()
        pulls = ImagePulls(self._store, self._client, followed.events, queue.add_after, config.insecure_registries)
        watch = ContainerWatch(queue.add)
        probes = PodProbes(followed.events, partial(ask, self._starter), queue.add)
        steps = PodSteps(
            client=self._client,
            events=followed.events,
            pods=self._pods,
            places=Places(
                config.network,
                self._cgroups,
                ApiReader(self._client, config.authority),
                facts.memory,
                self._cpus,
                config.name_server,
            ),
            pulls=pulls,
            devices=devices,
            starter=self._starter,
            warm=self._warm,
            boot_id=self._boot_id,
            host_address=facts.address,
            write_status=lambda local: made.write_status(local),
        )
        made = PodLoop(
            node_name=config.node,
            host_address=facts.address,
            boot_id=self._boot_id,
            informer=followed.pods,
            pods=self._pods,
            addresses=followed.addresses,
            steps=steps,
            probes=probes,
            watch=watch,
            clock=self._clock,
            queue=queue,
            history=StoreHistory(self._client, followed.pods),
            resizing=Resizing(partial(self._find_lacks, followed.nodes), followed.pods.list, self._pods.get),
        )
        return _PodWork(made, pulls, ReconcileLoop("pods", made.reconcile, WORKERS, queue))

    def _find_lacks(self, nodes: Informer[Node], pod: Pod, others: Sequence[Pod]) -> list[str]:
        """What of this node is too small for a Pod beside others, as its scheduler has it."""
        node = nodes.get("", self._config.node)
        return [] if node is None else list(room_reasons(pod, node, others, len(self._cpus.pool)))

    def _scheduler_parts(self, followed: _Followed) -> list[Part]:
        queue = WorkQueue()
        made = SchedulerLoop(
            node_name=self._config.node,
            client=self._client,
            pods=followed.pods,
            nodes=followed.nodes,
            storage=followed.storage,
            events=followed.scheduler_events,
            clock=self._clock,
            queue=queue,
            began=self._clock.now(),
            cpu_pool=len(self._cpus.pool),
        )
        loop = ReconcileLoop("scheduler", made.reconcile, queue=queue)

        def start() -> None:
            loop.start()
            followed.pods.on_change(made.on_pod)
            followed.nodes.on_change(made.on_node)
            followed.storage.claims.on_change(made.on_claim)
            followed.storage.classes.on_change(made.on_class)

        return [Part("scheduler", start, loop.stop, loop.failure, ("lists", "pod loop"))]

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

        with self._store.make_staging() as staging:
            archive = staging / "launcher.tar"
            write_launcher_image(archive)
            import_file(self._store, archive, LAUNCHER_IMAGE)
            if has_guestfs():
                write_guestfs_image(archive)
                import_file(self._store, archive, GUESTFS_IMAGE)

    def _all_notes(self, network: NetworkKeeper) -> list[str]:
        return [*network.notes(), *self._cgroups.notes(), *self._damage.notes(), *self._store_notes()]

    def _store_notes(self) -> list[str]:
        damaged = self._store.list_damaged()
        if not damaged:
            return []
        return [f"{len(damaged)} damaged files of the image store were put aside, such as {damaged[0]}: see the log"]
