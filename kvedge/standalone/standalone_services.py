"""`kvedge standalone` as a list of services: the embedded API, the node agent, then the three roles.

Called by the subcommand. Here, and only here, one box differs from a cluster: the roles are made from the same classes
and get a kubeconfig each, as everywhere; but they reach the API, which is in this process, by a door and not by TLS.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from kvedge import __version__
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.api_service import ApiOptions, ApiRole
from kvedge.api.registration.registration_loop import UploadFront
from kvedge.controller.alarms.words.teller_desk import WordPlaces
from kvedge.controller.controller_service import ControllerRole
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.handler.handler_service import HandlerConfig, HandlerRole
from kvedge.handler.node.kernel_modules import load_missing_modules
from kvedge.handler.node.kvm_check import Accelerator, choose_accelerator
from kvedge.kube.kube_client import KubeClient
from kvedge.network.address_plan import gateway_address
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.services.service_plan import ServiceNetworkConfig, table_name
from kvedge.resources.role_users import API_USER, CONTROLLER_USER, handler_user
from kvedge.runtime.address_pool import address_pool
from kvedge.runtime.address_ranges import address_ranges
from kvedge.runtime.architecture import host_architecture
from kvedge.runtime.open_files import raise_open_files
from kvedge.runtime.program import program_command, program_directories
from kvedge.runtime.services import Service, ServiceError
from kvedge.runtime.settings import Settings
from kvedge.standalone.agent.agent_service import AgentConfig, NodeAgent
from kvedge.standalone.agent.node.node_manifest import find_host_address
from kvedge.standalone.agent_requests import AgentRequests
from kvedge.standalone.apiserver.access.authorizer_rules import (
    AGENTS,
    APIS,
    CONTROLLERS,
    HANDLERS,
    NETWORKING,
    VOLUMES,
)
from kvedge.standalone.apiserver.access.server_certificate import names_of_server
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi, StartFailed
from kvedge.standalone.apiserver.store.object_store_file import StoreError
from kvedge.standalone.box_lock import BoxLock
from kvedge.standalone.box_node import NodeName, node_name
from kvedge.standalone.drop_ins.drop_in_loop import DropInLoop, Teller
from kvedge.standalone.drop_ins.image_drop_ins import ImageDropIns
from kvedge.standalone.drop_ins.manifest_drop_ins import ManifestDropIns
from kvedge.standalone.later_service import LaterService
from kvedge.standalone.names.host_names import HostNames
from kvedge.standalone.names.name_server import NameServer
from kvedge.standalone.names.other_servers import OtherServers
from kvedge.standalone.networking.listening_ports import listening_ports
from kvedge.standalone.networking.networking_service import NetworkingConfig, NetworkingService
from kvedge.standalone.networking.policy_gate import PolicyGate
from kvedge.standalone.volumes.box_places import BoxPlaces, drivers_of
from kvedge.standalone.volumes.volume_service import VolumeConfig, VolumeService
from kvedge.storage.images.image_store import ImageStore

log = logging.getLogger(__name__)

ADMIN_GROUP: Final = "system:masters"


def standalone_services(settings: Settings) -> list[Service]:
    """Everything one box runs, in the order in which it starts."""
    box = _Box(settings)
    return [
        BoxLock(settings.data_path),
        NodeName(settings.state_path, box.node, settings.node_name.lower()),
        _Server(box),
        LaterService("volumes", box.make_volumes),
        box.names,
        LaterService("policies", box.make_policy_gate),
        LaterService("node agent", box.make_agent),
        LaterService("networking", box.make_networking),
        LaterService("host names", box.make_host_names),
        LaterService("api", box.make_api),
        LaterService("handler", box.make_handler),
        LaterService("controller", box.make_controller),
        LaterService("dropped images", box.make_image_drop_ins),
        LaterService("dropped manifests", box.make_manifest_drop_ins),
    ]


def _console_hosts(address: str) -> list[str]:
    """The names by which the console is reached, which shows the API server's certificate; none when there is none."""
    return names_of_server(address.rpartition(":")[0].strip("[]"), ()) if address else []


class _Box:
    """What the services share: settings, kubeconfigs, and the accelerator that is chosen once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.node = node_name(settings.state_path, settings.node_name.lower(), settings.effective_node_name)
        self.logs = AgentRequests()
        pods = address_ranges(settings.pod_cidr)
        gateway = gateway_address(pods.ipv4)
        self.names = NameServer(gateway, pods.ipv4, OtherServers(own=gateway))
        config = ApiServerConfig(
            settings.data_path,
            settings.bind,
            settings.port,
            self.node,
            hosts=_console_hosts(settings.console_address),
            service_cidr=settings.service_cidr,
            has_balancer_pool=bool(settings.load_balancer_pool),
            host_ports=lambda: listening_ports(find_host_address()),
        )
        self.server = EmbeddedApi(config, self.logs, self.logs, self.logs, self.logs)
        self._accelerator: Accelerator | None = None
        self._image_drop_ins: ImageDropIns | None = None

    @property
    def accelerator(self) -> Accelerator:
        """KVM or emulation, for all roles alike."""
        if self._accelerator is None:
            self._accelerator = choose_accelerator(self.settings.emulation, self.settings.state_path)
        return self._accelerator

    @property
    def capabilities(self) -> Path:
        """The seed of libvirt's capabilities; not below `state`, which launchers must not see."""
        return self.settings.data_path / "qemu-capabilities"

    def kubeconfig(self, role: str, user: str, group: str) -> Path:
        """A role's own kubeconfig, written anew at each start."""
        path = self.settings.state_path / "kubeconfigs" / role
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self.server.write_kubeconfig(path, user, [group])
        return path

    def client(self, part: str, user: str, group: str) -> KubeClient:
        """A client of a part of the box, by a door of its own: no file holds a key for it."""
        # That of an earlier version.
        (self.settings.state_path / "kubeconfigs" / part).unlink(missing_ok=True)
        return KubeClient.from_door(self.server.door(user, [group]), f"kvedge-{part}")

    def make_volumes(self) -> Service:
        """What claims are bound to."""
        places = BoxPlaces(drivers_of(self.settings), self.settings.volume_overcommit)
        client = self.client("volumes", "kvedge:volumes", VOLUMES)
        return VolumeService(VolumeConfig(self.node, places), client)

    @property
    def agent_config(self) -> AgentConfig:
        """What the agent works with, and what its network is called."""
        return AgentConfig(
            node=self.node,
            data_dir=self.settings.data_path,
            kubelet=self.settings.box_kubelet_path,
            pod_cidr=self.settings.pod_cidr,
            insecure_registries=self.settings.registries_without_tls,
            name_server=self.names.address,
            dedicated_cpus=self.settings.cpus_for_guests_alone,
            warm_launchers=self.settings.launcher_start == "warm",
        )

    def make_agent(self) -> Service:
        """Scheduler and kubelet."""
        agent = NodeAgent(self.agent_config, self.client("agent", f"system:node:{self.node}", AGENTS))
        self.logs.source = agent
        return agent

    def make_policy_gate(self) -> Service:
        """What policies forbid until they are enforced."""
        client = self.client("networking", "kvedge:networking", NETWORKING)
        return PolicyGate(client, PolicyNetwork(self.agent_config.network))

    def make_networking(self) -> Service:
        """What is behind Services, and what policies let pass."""
        pods = self.agent_config.network
        # There are no Services of a family that Pods do not have.
        pool = address_pool(self.settings.load_balancer_pool)
        ranges = zip((pods.cidr, pods.ipv6_cidr), address_ranges(self.settings.service_cidr).all, strict=False)
        networks = tuple(
            ServiceNetworkConfig(
                bridge=pods.bridge,
                pod_cidr=pod_cidr,
                service_cidr=service_cidr,
                table=table_name(pods.table),
                pool=pool.of_version(version),
            )
            for version, (pod_cidr, service_cidr) in zip((4, 6), ranges, strict=False)
        )
        client = self.client("networking", "kvedge:networking", NETWORKING)
        config = NetworkingConfig(self.node, networks, pods, self.settings.port, pool)
        return NetworkingService(config, client, self.names.know)

    def make_host_names(self) -> Service:
        """Names of VMs and Services for the host itself."""
        return HostNames(self.agent_config.network.bridge, self.names.address)

    def make_api(self) -> Service:
        """Admission and subresources."""
        # By the name that stays: under another one, the address of before would go on being asked.
        # Uploads come in, and exports go out, where all else does: the embedded API hands them on.
        front = UploadFront(
            self.server.address_for_clients(find_host_address()), self.server.pki.servers.certificate_pem
        )
        cluster = Cluster(allocates_claims=False)
        door = self.server.door(API_USER, [APIS])
        options = ApiOptions(instance=self.node, cluster=cluster, upload_front=front, door=door)
        return ApiRole(self.kubeconfig("api", API_USER, APIS), self.settings.api_address, options)

    def make_handler(self) -> Service:
        """This node's handler."""
        return HandlerRole(
            HandlerConfig(
                kubeconfig=self.kubeconfig("handler", handler_user(self.node), HANDLERS),
                node=self.node,
                kubelet=self.settings.box_kubelet_path,
                state=self.settings.state_path / "handler",
                capabilities=self.capabilities,
                accelerator=self.accelerator,
                accelerator_is_set=self.settings.emulation_is_set,
                relay_address=self.settings.relay_address,
                door=self.server.door(handler_user(self.node), [HANDLERS]),
            )
        )

    def make_controller(self) -> Service:
        """The controller; one box has only one, so nobody is elected."""
        config = ClusterConfig(
            version=__version__,
            program=tuple(program_command()),
            program_directories=tuple(program_directories()),
            capabilities_directory=str(self.capabilities),
            default_architecture=host_architecture(),
            use_emulation=self.accelerator.emulation,
            emulation_is_set=self.settings.emulation_is_set,
            # One box knows its only node: a VM must not wait for a module that never comes.
            use_vhost_net="/dev/vhost-net" not in load_missing_modules(),
            brings_common_types=True,
        )
        return ControllerRole(
            self.kubeconfig("controller", CONTROLLER_USER, CONTROLLERS),
            config,
            leader_election=False,
            words=WordPlaces(self.settings.user_kubeconfig.parent, self.node),
            door=self.server.door(CONTROLLER_USER, [CONTROLLERS]),
        )

    def make_image_drop_ins(self) -> Service:
        """What users put into `images`."""
        teller = self._teller("images")
        store = ImageStore(self.settings.data_path / "images")
        self._image_drop_ins = ImageDropIns(store, self.settings.state_path / "image-drop-ins.json", teller)
        return DropInLoop("dropped images", self._image_drop_ins, teller)

    def make_manifest_drop_ins(self) -> Service:
        """What users put into `manifests`."""
        teller = self._teller("manifests")
        images_to_come = self._image_drop_ins.not_taken_yet if self._image_drop_ins else list
        drop_ins = ManifestDropIns(self.settings.data_path / "manifests", teller.client, teller, images_to_come)
        return DropInLoop("dropped manifests", drop_ins, teller)

    def _teller(self, directory: str) -> Teller:
        # Only an administrator writes to root's directory: manifests from there have an administrator's rights.
        client = self.client("drop-ins", "kvedge:drop-ins", ADMIN_GROUP)
        return Teller(client, f"kvedge-{directory}", self.node)


class _Server:
    """The embedded API, and the user's kubeconfig."""

    name = "embedded API"

    def __init__(self, box: _Box) -> None:
        self._box = box

    def start(self) -> None:
        """Serve, then write the kubeconfig.

        Raises:
            ServiceError: when the store or the port cannot be used.
        """
        raise_open_files()
        try:
            self._box.server.start()
        except (StartFailed, StoreError) as error:
            raise ServiceError(self.name, str(error)) from error
        path = self._box.settings.user_kubeconfig
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._box.server.write_kubeconfig(path, "admin", [ADMIN_GROUP])
        log.info("kubeconfig written", extra={"facts": {"path": path, "server": self._box.server.address}})

    def stop(self) -> None:
        """Everything that was written is on disk."""
        self._box.server.stop()

    def failure(self) -> str | None:
        """Why it no longer serves."""
        return self._box.server.failure()
