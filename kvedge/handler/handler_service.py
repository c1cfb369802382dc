"""The handler role as a service: informer, launcher connections, sync loop, device plugins, node labels.

Started by `kvedge handler`, `kvedge node` and `kvedge standalone`. One per node, as root. On its own restart it finds
everything again: VMIs from the API, domains from their launchers, interfaces from its records and the kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kvedge.handler.devices.device_users import DeviceUsers
from kvedge.handler.devices.node_devices import HostDevices
from kvedge.handler.guest.guest_network import GuestNetwork
from kvedge.handler.guest.lan_joining import LanJoining
from kvedge.handler.guest.moving_guests import Mobility
from kvedge.handler.guest.sync_loop import SyncLoop
from kvedge.handler.guest.version_gate import VersionGate
from kvedge.handler.held_process import HeldProcess
from kvedge.handler.launchers.launcher_connections import LauncherConnections
from kvedge.handler.launchers.launcher_door import NodeLaunchers
from kvedge.handler.launchers.node_stats import StatsReader
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.handler.migration.crossing_desk import CrossingDesk
from kvedge.handler.migration.crossing_line import CrossingLine
from kvedge.handler.migration.incoming_channels import IncomingChannels
from kvedge.handler.migration.outgoing_service import OutgoingService
from kvedge.handler.node.capability_seed import ProbeError
from kvedge.handler.node.container_disk_mounts import ContainerDiskMounts
from kvedge.handler.node.cpu_manager import read_cpu_labels
from kvedge.handler.node.device_claims import DeviceClaims, block_volumes
from kvedge.handler.node.device_plugin import list_shared_devices
from kvedge.handler.node.device_plugins import KUBELET_SOCKET, DevicePlugins
from kvedge.handler.node.host_health import HostHealth, find_kvm
from kvedge.handler.node.kernel_modules import load_missing_modules
from kvedge.handler.node.key_plugin import KeyPlugin, count_keys
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.launcher_limits import allow_realtime, lift_memory_lock
from kvedge.handler.node.launcher_tools import write_tools
from kvedge.handler.node.node_loop import NodeLoop
from kvedge.handler.node.node_platform import NodePlatform, OwnAccelerator
from kvedge.handler.node.plugin_service import PluginService
from kvedge.handler.node.reservation_helper import ReservationHelper
from kvedge.handler.node.reservation_plugin import Reservations
from kvedge.handler.pod_errors import PodNotReady
from kvedge.handler.usage.usage_files import UsageFiles
from kvedge.handler.usage.usage_keeper import UsageKeeper
from kvedge.handler.volumes.host_disk_images import HostDiskImages
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.errors import KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.inner_door import InnerDoor
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.node_troubles import NodeTroubles
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.network.lan.node_lans import NodeLansKeeper
from kvedge.resources.alarms.node_health import Kvm
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.host_devices.cpu_placement import is_realtime
from kvedge.resources.host_devices.passed_devices import passes_devices
from kvedge.resources.names import MIGRATION_TARGET_NODE, NODE_NAME, TOOLS_FOLDER
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import locks_memory, reserved_disks
from kvedge.runtime.clock import SystemClock
from kvedge.runtime.logs import set_verbosity
from kvedge.runtime.role import Part, Parts, part, unfailing
from kvedge.runtime.services import ServiceError

log = logging.getLogger(__name__)

_COMPONENT: Final = "virt-handler"
_SYNC_SECONDS: Final = 60.0
# A pass may wait for libvirt and QEMU to start a guest; so many may wait at once.
_WORKERS: Final = 8
# How long a new handler waits to learn the configuration before it starts guests by defaults.
_CONFIGURATION_SECONDS: Final = 5.0
# Where the nodes are that Pods get theirs from, in the handler's state; no VMI's UID looks like this.
_DEVICE_NODES: Final = "device-nodes"
# Where the socket of qemu-pr-helper is, likewise.
_RESERVATIONS: Final = "pr-helper"
# Where what guests have used is kept, likewise.
_USAGE: Final = "usage"


# A kubelet takes device plugins here whatever its root directory is (Kubernetes' deviceplugin/v1beta1 constants).
_FIXED_PLUGINS: Final = Path("/var/lib/kubelet/device-plugins")


def _host_health(config: HandlerConfig, platform: NodePlatform) -> HostHealth:
    def kvm() -> Kvm:
        # What the KubeVirt object asks for is wanted as much as what this node's operator has set.
        now = platform.accelerator
        is_wanted = config.accelerator_is_set or now != config.accelerator
        return find_kvm(emulation=now.emulation, is_wanted=is_wanted)

    return HostHealth((Path("/"), config.kubelet, config.state), config.kubelet / "pods", config.kubeconfig, kvm)


def plugin_directory(kubelet: Path, fixed: Path = _FIXED_PLUGINS) -> Path:
    """Where plugins meet the kubelet of this node: beside its Pods where there is such a place, else the fixed one."""
    own = kubelet / "device-plugins"
    if not (own / KUBELET_SOCKET).exists() and (fixed / KUBELET_SOCKET).exists():
        return fixed
    return own if own.is_dir() else fixed


class HandlerError(Exception):
    """The handler could not start; the text says why."""


class HandlerConfig(Struct, frozen=True):
    """The settings of one handler."""

    kubeconfig: Path
    node: str
    # Where the kubelet, or the agent of one box, keeps Pods' volumes and the plugins' sockets.
    kubelet: Path
    # The handler's own files: records of bound interfaces.
    state: Path
    # The seed of libvirt's capabilities, mounted into launcher Pods.
    capabilities: Path
    accelerator: Accelerator
    # The operator has said so, and wins over the KubeVirt object.
    accelerator_is_set: bool = False
    # Where consoles are relayed, as host:port; port 0 takes a free one.
    relay_address: str = "127.0.0.1:0"
    # Where neither Multus nor a node agent joins launchers to networks of the LAN, the handler does.
    joins_lans: bool = False
    # Above the node's /sys and /dev, where its devices are looked for.
    devices_root: Path = Path("/")
    # Why nothing of a VMI may begin here, by its UID; empty when it may. The fencer's word, where there is one.
    refuse_start: Callable[[str], str] = lambda uid: ""
    # To an API server of this process.
    door: InnerDoor | None = None


class HandlerRole:
    """What this node must do for its VMs."""

    name = "handler"

    def __init__(self, config: HandlerConfig) -> None:
        self._config = config
        self._parts = Parts()

    def start(self) -> None:
        """Begin; returns when VMIs of this node are looked after.

        Raises:
            ServiceError: when this host's libvirt or QEMU cannot be used, or the API does not answer.
        """
        load_missing_modules()
        _write_tools(self._config.capabilities)
        try:
            client = KubeClient.from_kubeconfig(self._config.kubeconfig, "kvedge-handler", self._config.door)
            self._parts = Parts(self._make_parts(client))
            self._parts.start()
        except (ProbeError, HandlerError, KubeError) as error:
            raise ServiceError(self.name, str(error)) from error

    def stop(self) -> None:
        """Stop looking after VMIs; guests go on."""
        self._parts.stop()

    def failure(self) -> str | None:
        """The first part that failed, with its cause."""
        return self._parts.failure()

    def _make_parts(self, client: KubeClient) -> list[Part]:
        config, clock = self._config, SystemClock()
        configuration = ConfigurationFollower(client, self.name)
        own = OwnAccelerator(config.accelerator, config.accelerator_is_set)
        platform = NodePlatform(own, config.capabilities, lambda: configuration.current)
        events = EventRecorder(client, _COMPONENT, config.node)
        vmis = Informer(client, VirtualMachineInstance, label_selector=f"{NODE_NAME}={config.node}")
        coming = Informer(client, VirtualMachineInstance, label_selector=f"{MIGRATION_TARGET_NODE}={config.node}")
        connections = LauncherConnections(config.kubelet, lambda key: loop.add(Key(*key)))
        devices = HostDevices(
            config.devices_root,
            config.state / _DEVICE_NODES,
            DeviceUsers(vmis.list),
            clock,
            lambda: node_loop.refresh(),
        )
        desk = CrossingDesk(lambda key: loop.add(Key(*key)), lambda: relay.look_soon())
        incoming = IncomingChannels(config.kubelet, desk)
        outgoing = OutgoingService(client, config.node, config.kubelet)
        line = CrossingLine(client, outgoing.begin, lambda key: loop.add(Key(*key)), clock)
        sync = SyncLoop(
            client=client,
            vmis=vmis,
            connections=connections,
            network=GuestNetwork(config.state, lambda: configuration.current),
            volumes=HotplugVolumes(config.kubelet),
            prepare_pod=_pod_preparation(config, events, devices),
            events=events,
            options=platform.options,
            kubelet=config.kubelet,
            node=config.node,
            clock=clock,
            lan_joining=LanJoining(partial(client.get, NetworkAttachmentDefinition) if config.joins_lans else None),
            mobility=Mobility(
                coming,
                incoming,
                outgoing,
                lambda: relay.migration_address,
                lambda: relay.migration_trouble or relay.crossing_trouble,
                desk,
                line,
                lambda: relay.crossing_address,
            ),
        )
        loop = ReconcileLoop("handler", sync.reconcile, workers=_WORKERS)
        for informer in (vmis, coming):
            informer.on_change(partial(_look_at, loop))
        stats = StatsReader(connections)
        usage = UsageKeeper(
            stats.look, partial(_find_guest, vmis, config.node), UsageFiles(config.state / _USAGE), clock
        )
        door = NodeLaunchers(vmis, connections, events, config.kubelet, config.node, stats, usage.tell)
        relay = RelayService(
            client,
            RelayConfig(config.node, config.relay_address),
            door,
            migrations=incoming,
            network=lambda: configuration.current.migrations.network,
            crosses=lambda: desk.is_open,
        )
        configuration.on_change(lambda _: relay.look_soon())
        gate = VersionGate(configuration.informer)
        node_loop = NodeLoop(
            client,
            config.node,
            platform,
            lambda: relay.address,
            lambda: gate.refusal,
            clock,
            events,
            health=_host_health(config, platform).read,
            devices=devices.report,
            cpus=partial(read_cpu_labels, config.kubelet),
        )
        gate.on_change(node_loop.refresh)
        platform.on_change(node_loop.refresh)
        # As KubeVirt's labeller does: labels that somebody took away are back soon.
        configuration.on_change(lambda _: node_loop.refresh())
        reservations = Reservations(
            ReservationHelper(config.state / _RESERVATIONS, clock),
            partial(_reserves_luns, vmis),
            partial(events.record, NodeTroubles.name_node(config.node), "Warning", "ReservationsUnavailable"),
        )
        plugins = self._make_plugins(configuration, platform, devices, reservations)
        return [
            Part("client", stop=client.close),
            # Its event loop is there already, and ends with this part.
            part("launcher connections", connections),
            Part(
                "configuration", partial(_learn, configuration), configuration.stop, configuration.failure, ("client",)
            ),
            Part("accelerator", platform.prepare, needs=("configuration",)),
            unfailing("events", events, "client"),
            unfailing("troubles", NodeTroubles(events, config.node), "events"),
            Part("VMIs", partial(_list, vmis, config.node), vmis.stop, vmis.failure, ("client",)),
            Part("coming VMIs", partial(_list, coming, config.node), coming.stop, coming.failure, ("VMIs",)),
            part("leaving guests", outgoing, "client"),
            part("sync loop", loop, "coming VMIs", "leaving guests", "launcher connections", "accelerator", "events"),
            Part("reservations", stop=reservations.stop, needs=("VMIs", "events")),
            part("device plugins", plugins, "accelerator", "reservations"),
            part("usage", usage, "VMIs", "launcher connections"),
            part("relay", relay, "VMIs"),
            part("node", node_loop, "accelerator", "relay"),
            part("platform", platform, "accelerator"),
            *([part("LANs", NodeLansKeeper().rounds)] if config.joins_lans else []),
        ]

    def _make_plugins(
        self,
        configuration: ConfigurationFollower,
        platform: NodePlatform,
        devices: HostDevices,
        reservations: Reservations,
    ) -> DevicePlugins:
        config = self._config
        # KVM is offered wherever it works: the KubeVirt object may ask for emulation today and no more tomorrow.
        plugins = DevicePlugins(
            plugin_directory(config.kubelet),
            list_shared_devices(config.state / _DEVICE_NODES, emulation=config.accelerator.emulation),
            _other_plugins(devices, reservations),
        )

        def follow(found: Configuration) -> None:
            set_verbosity(self.name, found.log_levels.of_handler(config.node))
            plugins.offer(found.vmis_per_node)
            devices.permit(found.permitted_devices)
            reservations.allow(found.reserves_luns)
            platform.note_configuration_change()

        configuration.on_change(follow)
        return plugins


def _write_tools(seed: Path) -> None:
    try:
        write_tools(seed)
    except OSError as error:
        # People look into launchers by them; guests run without.
        facts = {"directory": str(seed / TOOLS_FOLDER), "why": str(error)}
        log.warning("virsh for launchers' containers cannot be written", extra={"facts": facts})


def _other_plugins(devices: HostDevices, reservations: Reservations) -> Callable[[], Collection[PluginService[Any]]]:
    """Those of devices that go to one guest each, of the CPU's keys where it has some, and of reservations."""
    keys = [KeyPlugin()] if count_keys() else []
    return lambda: [*devices.plugins(), *keys, *reservations.plugins()]


def _reserves_luns(vmis: Informer[VirtualMachineInstance]) -> bool:
    return any(not vmi.is_final and reserved_disks(vmi.spec) for vmi in vmis.list())


def _pod_preparation(
    config: HandlerConfig, events: EventRecorder, host_devices: HostDevices
) -> Callable[[VirtualMachineInstance, HeldProcess, str], None]:
    """What a launcher's Pod is given before its guest starts, beside its network."""
    devices, disks = DeviceClaims(), ContainerDiskMounts(config.kubelet)
    host_disks = HostDiskImages(lambda vmi, reason, text: events.record(vmi, "Normal", reason, text), config.node)

    def prepare(vmi: VirtualMachineInstance, launcher: HeldProcess, pod_uid: str) -> None:
        if why := config.refuse_start(vmi.metadata.uid):
            raise PodNotReady(why)
        host_devices.claim(vmi, launcher)
        passes = passes_devices(vmi)
        devices.claim(launcher, block_volumes(vmi), passes=passes)
        if passes or locks_memory(vmi.spec.domain):
            lift_memory_lock(launcher)
        if is_realtime(vmi.spec.domain):
            allow_realtime(launcher)
        disks.prepare(vmi, launcher, pod_uid)
        host_disks.prepare(vmi, launcher)

    return prepare


def _look_at(loop: ReconcileLoop, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
    """A VMI came, changed or went."""
    vmi = new or old
    if vmi is not None:
        loop.add(Key(vmi.metadata.namespace, vmi.metadata.name))


def _find_guest(
    vmis: Informer[VirtualMachineInstance], node: str, key: tuple[str, str]
) -> VirtualMachineInstance | None:
    """The VMI of a guest that runs here; one that is still to come is its other node's."""
    vmi = vmis.get(*key)
    return vmi if vmi is not None and vmi.status.node_name == node else None


def _learn(configuration: ConfigurationFollower) -> None:
    configuration.start()
    configuration.wait(_CONFIGURATION_SECONDS)


def _list(vmis: Informer[VirtualMachineInstance], node: str) -> None:
    """List once, then watch.

    Raises:
        HandlerError: when the list did not come.
    """
    vmis.start()
    if not vmis.wait_synced(_SYNC_SECONDS):
        why = f": {vmis.trouble}" if vmis.trouble else ""
        raise HandlerError(f"the API did not list the VMIs of node {node} within {_SYNC_SECONDS:.0f} s{why}")
