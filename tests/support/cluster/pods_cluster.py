"""A cluster of one node of this machine's, with kvedge on it as Pods: nothing is installed but an archive of images.

Its node has no kube-proxy: what that would do for the API server's own Service is done here.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import GATEWAY, MachineNode, NodePlace
from tests.support.cluster.slots import claim_slot

ROOT = Path(__file__).resolve().parents[3]
NODE = "n1"
SYSTEM = "kvedge-system"
# In the order in which k3s/README.md applies them.
FILES = ("rbac", "crds", "priority-classes.yaml", "deployment.yaml", "daemonset.yaml", "kubevirt.yaml")
_SERVICE = "10.0.0.1"


class PodsCluster(LocalCluster):
    """Control plane and one node; kvedge comes by :meth:`apply_kvedge`."""

    @classmethod
    def create_bare(cls, directory: Path) -> PodsCluster:
        """Bring it up without kvedge."""
        slot = claim_slot()
        plane = ControlPlane(directory / "plane", GATEWAY)
        plane.start()
        cluster = cls(plane.api.kubeconfig, directory=directory)
        cluster.plane, cluster.slot = plane, slot
        try:
            place = NodePlace(slot.offset + 1, NODE)
            node = MachineNode(place, directory / NODE, plane.api)
            cluster.nodes[NODE] = node
            node.start([place])
            node.start_containerd()
            node.start_kubelet()
            node.import_image(cluster._guest_archive())
            cluster._play_kube_proxy(node)
        except BaseException:
            cluster.remove()
            raise
        return cluster

    @property
    def node(self) -> MachineNode:
        """The only one."""
        return self.nodes[NODE]

    def load(self, program: Path) -> None:
        """Make the images of a program, and put them on the node."""
        out = self.directory / f"{program.name}-images"
        subprocess.run([str(ROOT / "packaging/image"), str(program), str(out)], check=True, capture_output=True)
        self.node.import_image(out / f"{program.name}.images.tar")

    def apply_kvedge(self) -> None:
        """As k3s/README.md says it, and guests emulated."""
        for name in FILES:
            self.kubectl("apply", "--server-side", "-f", str(ROOT / "k3s" / name))
            if name == "crds":
                self.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        emulated = '{"spec":{"configuration":{"developerConfiguration":{"useEmulation":true}}}}'
        self.kubectl("patch", "kubevirt", "kubevirt", "-n", SYSTEM, "--type=merge", "-p", emulated)

    def rolled_out(self, workload: str, seconds: int = 240) -> str:
        """Wait until all Pods of a Deployment or DaemonSet are the newest and ready."""
        done = self.kubectl("rollout", "status", workload, "-n", SYSTEM, f"--timeout={min(seconds, 170)}s", check=False)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{self.told_of_pods()}"
        return done.stdout

    def told_of_pods(self) -> str:
        """What the cluster says of kvedge's own Pods, and their last words."""
        pods = self.kubectl("describe", "pods", "-n", SYSTEM, check=False).stdout
        words = [
            self.kubectl("logs", "-n", SYSTEM, workload, "--tail=20", check=False).stdout
            for workload in ("ds/kvedge-handler", "deploy/kvedge-api", "deploy/kvedge-controller")
        ]
        return "\n".join([pods, *words])

    def _play_kube_proxy(self, node: MachineNode) -> None:
        target = f"ip daddr {_SERVICE} tcp dport 443 dnat to {self.plane.address}:{self.plane.api.port}"
        rules = self.directory / "service.nft"
        rules.write_text(
            "table ip kvt {\n"
            f" chain pods {{ type nat hook prerouting priority -100; {target}; }}\n"
            f" chain host {{ type nat hook output priority -100; {target}; }}\n"
            "}\n"
        )
        node.run("nft", "-f", str(rules))

    def remove(self) -> None:
        """End everything."""
        for node in self.nodes.values():
            if node.is_running("kubelet"):
                node.end("kubelet", signal.SIGKILL)
        super().remove()
