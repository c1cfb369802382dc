"""The servers on which KubeVirt's specs run: a box of the run's own, or a cluster of machines made on this one.

Called by the conformance run. Either comes with the guests' images, and ends with its context; its logs are copied
into the run's directory then.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.types.core import Node
from tests.conformance.guests import GUESTS, TAG, build_named_guest, image_prefix, import_guests, write_disk_image
from tests.conformance.images_provider import provider_image, write_provider_image
from tests.conformance.job_image import import_job_image, job_image, write_job_image
from tests.conformance.known_specs import Place
from tests.support.box import Box
from tests.support.cluster.control_plane import missing_programs
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.local_path import CLASS, SHARED_CLASS, LocalPathProvisioner, missing_provisioner
from tests.support.cluster.machine_node import GATEWAY, missing_runtime

# No other test of this machine has these addresses: the tier runs beside them. The first one is the node bridge's.
_POD_CIDR: Final = "10.93.128.0/24,fd93:128::/64"
_NODE_BRIDGE: Final = "10.93.128.1"
_NODE_BRIDGE_IPV6: Final = "fd93:128::1"
_NODES: Final = 2
_CONTROL: Final = "node-role.kubernetes.io/control-plane"
# Claims of one box are files or block devices of one node, several VMs may have one, and VolumeSnapshots are taken of
# them; those of k3s's own storage are directories of one VM. Beside it the nodes of the cluster have a directory
# together.
_ONE_VM: Final = ("storageRWOFileSystem", "storageClassCSI", "storageVMState")
_MORE_OF_A_BOX: Final = ("storageRWOBlock", "storageRWXFileSystem", "storageRWXBlock", "storageSnapshot")
_BOX_STORAGE: Final = dict.fromkeys(_ONE_VM + _MORE_OF_A_BOX, "kvedge")
_CLUSTER_STORAGE: Final = {**dict.fromkeys(_ONE_VM, CLASS), "storageRWXFileSystem": SHARED_CLASS}


@dataclass(frozen=True)
class Stage:
    """A server with kvedge, and what the run has to know of it."""

    place: Place
    kubeconfig: Path
    client: KubeClient
    # Of this machine, where guests and nodes reach it: a registry is served there.
    address: str
    # Where Pods ask for names.
    name_server: str
    # What claims ask for, by the words of the tests' own configuration.
    storage: Mapping[str, str]
    # Of a node, by which specs see whether Pods have IPv6; none where they have not.
    ipv6: str = ""


@contextlib.contextmanager
def box_stage(scratch: Path, directory: Path) -> Iterator[Stage]:
    """One box, whose data is below `scratch`."""
    box = Box(scratch / "data", _POD_CIDR, log_level="info")
    box.data_dir.mkdir()
    prefix = image_prefix(_NODE_BRIDGE)
    try:
        import_guests(box, prefix)
        import_job_image(box, prefix)
        write_provider_image(scratch / "provider.tar", provider_image(prefix))
        box.import_image(scratch / "provider.tar", provider_image(prefix))
        box.start()
        yield Stage(Place.BOX, box.kubeconfig, box.client, _NODE_BRIDGE, _NODE_BRIDGE, _BOX_STORAGE, _NODE_BRIDGE_IPV6)
    finally:
        if box.log.exists():
            shutil.copy(box.log, directory / "standalone.log")
        box.remove()


@contextlib.contextmanager
def cluster_stage(scratch: Path, directory: Path) -> Iterator[Stage]:
    """A cluster of nodes in namespaces of their own, with the real control plane, kubelets and storage of k3s.

    A machine has room for a few, those of the tests of `tests/cluster` included: who comes then waits.
    """
    cluster = LocalCluster.create(scratch / "cluster", _NODES)
    provisioner = LocalPathProvisioner(cluster, shared=True)
    try:
        _import_into_nodes(cluster, image_prefix(GATEWAY))
        # Specs of drains ask for a node of the control plane, away from which they would rather have their guests.
        cluster.client.patch(Node, "", next(iter(cluster.nodes)), MergePatch({"metadata": {"labels": {_CONTROL: ""}}}))
        provisioner.start()
        yield Stage(Place.CLUSTER, cluster.kubeconfig, cluster.client, GATEWAY, GATEWAY, _CLUSTER_STORAGE)
    finally:
        provisioner.stop()
        for node in cluster.nodes.values():
            for program in ("kvedge", "kubelet", "containerd"):
                (directory / f"{node.name}-{program}.log").write_text(node.log(program))
        cluster.remove()


def missing_for_cluster() -> list[str]:
    """What keeps this machine from being a cluster's."""
    return missing_programs() + missing_runtime() + missing_provisioner()


def _import_into_nodes(cluster: LocalCluster, prefix: str) -> None:
    archive = cluster.directory / "image.tar"
    for guest in GUESTS:
        disk = build_named_guest(guest)
        for image in guest.images:
            write_disk_image(archive, disk, f"{prefix}/{image}:{TAG}")
            _import_everywhere(cluster, archive)
    write_job_image(archive, job_image(prefix))
    _import_everywhere(cluster, archive)
    write_provider_image(archive, provider_image(prefix))
    _import_everywhere(cluster, archive)
    archive.unlink()


def _import_everywhere(cluster: LocalCluster, archive: Path) -> None:
    for node in cluster.nodes.values():
        node.import_image(archive)
