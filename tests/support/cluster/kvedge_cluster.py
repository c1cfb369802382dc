"""A cluster with kvedge on its nodes, as tests use it: one of this machine's own, or the one that $KUBECONFIG names.

What only the owner of a machine can do (cut its power, kill its kubelet) is `LocalCluster`'s; a test that needs it is
skipped on a cluster of somebody else's.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import yaml

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.core import Node, Pod
from kvedge.resources.names import CREATED_BY, SCHEDULABLE
from kvedge.resources.vm import VirtualMachine
from kvedge.resources.vmi import VirtualMachineInstance
from tests.support.box import CHECKOUT, processes
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.machine_node import MachineNode, NodePlace, make_bridge, remove_bridge
from tests.support.guest import build_guest, cache_directory
from tests.support.kube_apiserver import assets
from tests.support.small_images import directory, file, layer, oci_archive
from tests.support.waiting import wait_until

BOOT_SECONDS = 150.0
# What the tests' VMs boot from; on a cluster of somebody else's $KVEDGE_TEST_IMAGE names it.
GUEST_IMAGE = "kvedge.local/test-guest:1"
SERVER = "n1"


@dataclass
class Cluster:
    """What a test does with any cluster."""

    kubeconfig: Path
    image: str = GUEST_IMAGE
    _client: KubeClient | None = None

    @property
    def client(self) -> KubeClient:
        """A client with an administrator's kubeconfig."""
        if self._client is None:
            self._client = KubeClient.from_kubeconfig(self.kubeconfig)
        return self._client

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a verb of kvedge against this cluster."""
        return _run([*CHECKOUT, *arguments], self.kubeconfig, check=check)

    def kubectl(self, *arguments: str, check: bool = True, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        program = str((assets() or Path()) / "kubectl") if assets() else "kubectl"
        return _run([program, *arguments], self.kubeconfig, check=check, text=text)

    def apply(self, *manifests: JsonObject) -> None:
        """Apply manifests with kubectl."""
        self.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(manifests))

    def vm(self, name: str) -> VirtualMachine:
        """The VM as it is."""
        return self.client.get(VirtualMachine, "default", name)

    def vmi(self, name: str) -> VirtualMachineInstance | None:
        """The VMI as it is, or None."""
        with contextlib.suppress(NotFound):
            return self.client.get(VirtualMachineInstance, "default", name)
        return None

    def pods(self, vmi: VirtualMachineInstance) -> list[Pod]:
        """The launcher Pods of a VMI."""
        return self.client.list(Pod, "default", label_selector=f"{CREATED_BY}={vmi.metadata.uid}")

    def wait_phase(self, name: str, phase: str, seconds: float = BOOT_SECONDS) -> VirtualMachineInstance:
        """The VMI once it has this phase."""

        def check() -> VirtualMachineInstance | None:
            vmi = self.vmi(name)
            return vmi if vmi is not None and vmi.status.phase == phase else None

        try:
            return wait_until(check, f"VMI {name} is {phase}", seconds, 0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told(name)}") from error

    def told(self, name: str) -> str:
        """Everything that the cluster says of a VMI and its Pods."""
        vmi = self.kubectl("get", "vmi", name, "-o", "yaml", check=False).stdout
        pods = self.kubectl("describe", "pods", check=False).stdout
        return f"{vmi}\n{pods}"

    def wait_gone(self, name: str, seconds: float = 90.0) -> None:
        """Until there is no VMI of that name."""
        wait_until(lambda: self.vmi(name) is None, f"VMI {name} is gone", seconds, 0.1)

    def wait_answer(self, name: str, seconds: float = BOOT_SECONDS) -> str:
        """What the guest's web page says, asked through the API server, which asks the Pod's address."""

        def ask() -> str:
            vmi = self.vmi(name)
            address = vmi.status.interfaces[0].ip_address if vmi is not None and vmi.status.interfaces else ""
            return _page(address) if address else ""

        return wait_until(ask, f"the guest of {name} answers HTTP", seconds, 0.2)

    def remove_vm(self, name: str) -> None:
        """Delete a VM and wait until nothing of it is left."""
        self.kubectl("delete", "vm", name, "--ignore-not-found", "--wait=false")
        self.wait_gone(name)
        wait_until(lambda: not self.client.list(Pod, "default", label_selector=f"vm.kubevirt.io/name={name}"), "no Pod")


def _page(address: str) -> str:
    connection = http.client.HTTPConnection(address, timeout=1)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", "/")
        return connection.getresponse().read(65536).decode(errors="replace")
    return ""


@dataclass
class LocalCluster(Cluster):
    """A cluster whose machines are this machine's."""

    directory: Path = Path()
    plane: ControlPlane = field(init=False)
    lock: IO[str] | None = None
    nodes: dict[str, MachineNode] = field(default_factory=dict)

    @classmethod
    def create(cls, directory: Path, count: int = 2, containerd: Path = Path("/usr/bin")) -> LocalCluster:
        """Bring up a control plane and nodes n1, n2 …, with kvedge on all of them; n1 is the server.

        There is one at a time on a machine, as its links have fixed names: who comes second waits.
        """
        cache_directory().mkdir(parents=True, exist_ok=True)
        lock = (cache_directory() / "cluster.lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_bridge()
        plane = ControlPlane(directory / "plane", "10.98.0.1")
        plane.start()
        cluster = cls(plane.api.kubeconfig, directory=directory)
        cluster.plane, cluster.lock = plane, lock
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
        places = [NodePlace(other, f"n{other}") for other in range(1, count + 1)]
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

    def start_kvedge(self, name: str) -> None:
        """Start `kvedge node` there: on n1 with all roles, elsewhere with the handler alone."""
        node = self.nodes[name]
        command = [*CHECKOUT, "node", "--kubeconfig", "/etc/kvedge/roles", "--node-name", name, "--emulation", "tcg"]
        command += ["--relay-address", f"{node.place.address}:8186", "--log-level", "debug"]
        # As `install --role agent` has it: the handler speaks as its node; on the server, for once, in its own name.
        command += ["--node-kubeconfig", str(node.kubeconfig)]
        if name == SERVER:
            command += ["--api-address", f"{node.place.address}:8443"]
        else:
            command += ["--node-roles", "handler"]
        node.spawn("kvedge", *command)

    def _give_names(self, node: MachineNode) -> None:
        roles = node.directory / "etc/kvedge/roles"
        roles.mkdir(mode=0o700, exist_ok=True)
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
        conditions = json.loads(self.kubectl("get", "node", name, "-o", "json").stdout)["status"]["conditions"]
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    def qemu_pids(self, vmi_uid: str) -> list[int]:
        """The QEMU processes of one VMI on all nodes: more than one is the end of the company."""
        return [pid for pid, command in processes() if "qemu-system" in command[0] and vmi_uid in " ".join(command)]

    def told(self, name: str) -> str:
        """What the cluster says, and the last words of kvedge on each node."""
        logs = [f"--- kvedge of {node.name}\n{node.log('kvedge')[-4000:]}" for node in self.nodes.values()]
        return "\n".join([super().told(name), *logs])

    def node_of(self, vmi: VirtualMachineInstance) -> MachineNode:
        """The node on which a VMI runs."""
        return self.nodes[vmi.status.node_name]

    def remove(self) -> None:
        """End everything."""
        if self._client is not None:
            self._client.close()
        for node in self.nodes.values():
            if node.is_running("kvedge"):
                node.end("kvedge", signal.SIGTERM)
            node.remove()
        self.plane.stop()
        remove_bridge()
        if self.lock is not None:
            self.lock.close()

    def _guest_archive(self) -> Path:
        archive = self.directory / "guest.tar"
        if not archive.exists():
            disk = build_guest().disk.read_bytes()
            found = layer([directory("disk", 0o755), file("disk/disk.qcow2", disk, 0o644)])
            oci_archive(archive, [found], {}, GUEST_IMAGE, zipped=False)
        return archive

    def _launcher_archive(self) -> Path:
        from kvedge.storage.launcher_image import write_launcher_image

        archive = self.directory / "launcher.tar"
        if not archive.exists():
            write_launcher_image(archive)
        return archive


def _repository() -> Path:
    return Path(__file__).resolve().parents[3]


def _run(command: Sequence[str], kubeconfig: Path, *, check: bool, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        done = subprocess.run(
            list(command),
            stdin=given,
            capture_output=True,
            text=True,
            env=environment,
            cwd="/",
            timeout=180,
            check=False,
        )
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr or done.stdout}"
    return done
