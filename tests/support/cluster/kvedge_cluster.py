"""A cluster with kvedge whose machines are this machine's: what only their owner can do is here.

A test that cuts a node's power or kills its kubelet needs this one, and is skipped on a cluster of somebody else's.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kvedge.kube.errors import NotFound
from kvedge.resources.names import SCHEDULABLE, SYSTEM_NAMESPACE
from kvedge.resources.types.core import Node
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import CHECKOUT, processes
from tests.support.cluster.any_cluster import Cluster
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.guest_image import write_guest_image
from tests.support.cluster.machine_node import GATEWAY, MachineNode, NodePlace
from tests.support.cluster.slots import ClusterSlot, claim_slot
from tests.support.cluster.unit_sandbox import sandboxed
from tests.support.waiting import wait_until

SERVER = "n1"
API_SERVICE = "kvedge-api"


@dataclass
class LocalCluster(Cluster):
    """A cluster whose machines are this machine's."""

    directory: Path = Path()
    plane: ControlPlane = field(init=False)
    slot: ClusterSlot = field(init=False)
    nodes: dict[str, MachineNode] = field(default_factory=dict)
    # What runs on some nodes in the checkout's place, as words of a command.
    programs: dict[str, list[str]] = field(default_factory=dict)
    # Where controller and api are, too.
    servers: set[str] = field(default_factory=lambda: {SERVER})

    @classmethod
    def create(
        cls,
        directory: Path,
        count: int = 2,
        containerd: Path = Path("/usr/bin"),
        programs: dict[str, list[str]] | None = None,
    ) -> LocalCluster:
        """Bring up a control plane and nodes n1, n2 …, with kvedge on all of them; n1 is the server.

        A machine has room for a few: who comes then waits.
        """
        slot = claim_slot()
        plane = ControlPlane(directory / "plane", GATEWAY)
        plane.start()
        cluster = cls(plane.api.kubeconfig, directory=directory)
        cluster.plane, cluster.slot, cluster.programs = plane, slot, programs or {}
        try:
            cluster.kubectl("apply", "--server-side", "-f", str(_repository() / "k3s" / "rbac"))
            for number in range(1, count + 1):
                cluster.add_node(number, count, containerd)
        except BaseException:
            cluster.remove()
            raise
        return cluster

    def add_node(self, number: int, count: int, containerd: Path) -> None:
        """Switch a node on, let it join, and put kvedge on it."""
        places = [NodePlace(self.slot.offset + other, f"n{other}") for other in range(1, count + 1)]
        node = MachineNode(places[number - 1], self.directory / f"n{number}", self.plane.api, containerd)
        self.nodes[node.name] = node
        node.start(places)
        node.start_containerd()
        node.start_kubelet()
        node.import_image(self._guest_archive())
        node.import_image(self._launcher_archive())
        self._give_names(node)
        self.start_kvedge(node.name)
        wait_until(lambda: self.is_schedulable(node.name), f"kvedge serves on {node.name}", 120, 0.2)

    def restart_node(self, name: str) -> None:
        """Switch a node on again that lost its power; what it keeps on its disk is there."""
        node = self.nodes[name]
        node.start([other.place for other in self.nodes.values()])
        node.start_containerd()
        node.start_kubelet()
        self.start_kvedge(name)

    def start_kvedge(self, name: str, emulation: str = "tcg") -> None:
        """Start `kvedge node` there: on a server with all roles, elsewhere with the handler alone."""
        node = self.nodes[name]
        command = [*self.programs.get(name, CHECKOUT), "node", "--kubeconfig", "/etc/kvedge/roles"]
        command += ["--node-name", name, "--emulation", emulation]
        command += ["--relay-address", f"{node.place.address}:8186", "--log-level", "debug"]
        # As `install --role agent` has it: the handler speaks as its node; on the server, for once, in its own name.
        command += ["--node-kubeconfig", str(node.kubeconfig)]
        if name in self.servers:
            command += ["--api-address", f"{node.place.address}:8443"]
        else:
            command += ["--node-roles", "handler"]
        node.spawn("kvedge", *sandboxed(command))

    def promote(self, name: str) -> None:
        """Make a node one more server."""
        self.servers.add(name)
        roles = self._roles(self.nodes[name])
        for role in ("controller", "api"):
            self.cli("user", "role", role, "--output", str(roles / role), "--force")
        self.restart_kvedge(name)
        wait_until(lambda: self.serves_api(name), f"the api role of {name} can be reached", 120, 0.2)

    def demote(self, name: str) -> None:
        """Leave it the handler alone."""
        self.servers.discard(name)
        shutil.rmtree(self._roles(self.nodes[name]))
        self._roles(self.nodes[name])
        self.restart_kvedge(name)

    def restart_kvedge(self, name: str, emulation: str = "tcg") -> None:
        """Start kvedge there anew, whether it runs or not."""
        if self.nodes[name].is_running("kvedge"):
            self.nodes[name].end("kvedge")
        self.start_kvedge(name, emulation)

    def start(self, name: str, program: str) -> None:
        """Start one of a node's three programs."""
        starts = {"containerd": MachineNode.start_containerd, "kubelet": MachineNode.start_kubelet}
        if program == "kvedge":
            self.start_kvedge(name)
        else:
            starts[program](self.nodes[name])

    @contextlib.contextmanager
    def without(self, name: str, program: str, number: signal.Signals = signal.SIGTERM) -> Iterator[None]:
        """As long as a program of a node does not run; it does again, however the block ends."""
        self.nodes[name].end(program, number)
        try:
            yield
        finally:
            self.start(name, program)

    @contextlib.contextmanager
    def cordoned(self, *names: str) -> Iterator[None]:
        """As long as nothing new comes to these nodes, which may be drained; it does again, however the block ends."""
        self.kubectl("cordon", *names)
        try:
            yield
        finally:
            self.kubectl("uncordon", *names)

    def serves_api(self, name: str) -> bool:
        """Whether calls for the api role are sent to this node."""
        found = self.endpoints(API_SERVICE, SYSTEM_NAMESPACE)
        return any(entry.address == self.nodes[name].place.address for entry in found)

    def _roles(self, node: MachineNode) -> Path:
        roles = node.directory / "etc/kvedge/roles"
        roles.mkdir(mode=0o700, exist_ok=True)
        return roles

    def _give_names(self, node: MachineNode) -> None:
        roles = self._roles(node)
        for role in ("controller", "api", "handler") if node.name == SERVER else ():
            more = ["--node", node.name] if role == "handler" else []
            self.cli("user", "role", role, *more, "--output", str(roles / role), "--force")

    def is_schedulable(self, name: str) -> bool:
        """Whether VMs may come to a node."""
        with contextlib.suppress(NotFound):
            return self.client.get(Node, "", name).metadata.labels.get(SCHEDULABLE) == "true"
        return False

    def is_ready(self, name: str) -> bool:
        """Whether the kubelet of a node says that it is ready."""
        # Not by kubectl: it is asked again and again.
        conditions = self.client.get(Node, "", name).status.conditions
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    def qemu_pids(self, vmi_uid: str) -> list[int]:
        """The QEMU processes of one VMI on all nodes: more than one is the end of the company."""
        return [pid for pid, command in processes() if "qemu-system" in command[0] and vmi_uid in " ".join(command)]

    def count_qemus(self, vmi: VirtualMachineInstance) -> int:
        """How many QEMUs a VMI has, on whichever node and in whichever Pod."""
        return len(self.qemu_pids(vmi.metadata.uid))

    def told(self, name: str) -> str:
        """What the cluster says, and the last words of kvedge on each node."""
        logs = [f"--- kvedge of {node.name}\n{node.log('kvedge')[-4000:]}" for node in self.nodes.values()]
        return "\n".join([super().told(name), *logs])

    def node_of(self, vmi: VirtualMachineInstance) -> MachineNode:
        """The node on which a VMI runs."""
        return self.nodes[vmi.status.node_name]

    def remove(self) -> None:
        """End everything."""
        self.close()
        for node in self.nodes.values():
            if node.is_running("kvedge"):
                node.end("kvedge", signal.SIGTERM)
            node.remove()
        self.plane.stop()
        self.slot.release()

    def _guest_archive(self) -> Path:
        archive = self.directory / "guest.tar"
        if not archive.exists():
            write_guest_image(archive)
        return archive

    def _launcher_archive(self) -> Path:
        from kvedge.storage.images.launcher_image import write_launcher_image

        archive = self.directory / "launcher.tar"
        if not archive.exists():
            write_launcher_image(archive)
        return archive


def _repository() -> Path:
    return Path(__file__).resolve().parents[3]
