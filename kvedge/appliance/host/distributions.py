"""Where distributions of Kubernetes keep what kvedge needs of them on a node.

Called by installing on a node of a cluster. Pure: whether a path is there is asked through a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

DEFAULT_KUBELET: Final = Path("/var/lib/kubelet")
_NAMESPACE: Final = ("--namespace", "k8s.io")
_IMPORT: Final = ("images", "import")
# A distribution's own `ctr` sets address and namespace by itself.
_CTR: Final = ("ctr", *_IMPORT)


class Distribution(Struct, frozen=True):
    """One way to run Kubernetes; `sign` is there on each of its nodes, `kubeconfig` on servers only.

    `node_kubeconfig` is the kubelet's, by which a node speaks; the distribution renews what is in it. `load` is the
    command that imports an archive, named after it, into the node's containerd.
    """

    name: str
    kubeconfig: Path
    kubelet: Path
    sign: Path
    node_kubeconfig: Path
    load: tuple[str, ...]
    # The directory whose image archives are loaded when the node starts; None where the distribution has none.
    images: Path | None = None
    # Manifests in here are applied on servers, and stay when the file goes. k0s has such a directory too, and deletes
    # The directory whose manifests are applied on servers; the objects stay when the file goes. k0s has such a
    # directory too, but deletes the objects of a file that goes: none of ours may be in there.
    manifests: Path | None = None


# In this order: a node of k3s or RKE2 may have leftovers of a kubeadm of before.
DISTRIBUTIONS: Final[Sequence[Distribution]] = (
    Distribution(
        "k3s",
        Path("/etc/rancher/k3s/k3s.yaml"),
        DEFAULT_KUBELET,
        Path("/var/lib/rancher/k3s/agent"),
        Path("/var/lib/rancher/k3s/agent/kubelet.kubeconfig"),
        ("k3s", *_CTR),
        Path("/var/lib/rancher/k3s/agent/images"),
        Path("/var/lib/rancher/k3s/server/manifests"),
    ),
    Distribution(
        "RKE2",
        Path("/etc/rancher/rke2/rke2.yaml"),
        DEFAULT_KUBELET,
        Path("/var/lib/rancher/rke2/agent"),
        Path("/var/lib/rancher/rke2/agent/kubelet.kubeconfig"),
        ("/var/lib/rancher/rke2/bin/ctr", "--address", "/run/k3s/containerd/containerd.sock", *_NAMESPACE, *_IMPORT),
        Path("/var/lib/rancher/rke2/agent/images"),
        Path("/var/lib/rancher/rke2/server/manifests"),
    ),
    Distribution(
        "k0s",
        Path("/var/lib/k0s/pki/admin.conf"),
        Path("/var/lib/k0s/kubelet"),
        Path("/var/lib/k0s/kubelet"),
        Path("/var/lib/k0s/kubelet.conf"),
        ("k0s", *_CTR),
        Path("/var/lib/k0s/images"),
    ),
    Distribution(
        "MicroK8s",
        Path("/var/snap/microk8s/current/credentials/client.config"),
        Path("/var/snap/microk8s/common/var/lib/kubelet"),
        Path("/var/snap/microk8s/common/var/lib/kubelet"),
        Path("/var/snap/microk8s/current/credentials/kubelet.config"),
        ("microk8s", *_CTR),
    ),
    Distribution(
        "kubeadm",
        Path("/etc/kubernetes/admin.conf"),
        DEFAULT_KUBELET,
        Path("/etc/kubernetes/kubelet.conf"),
        Path("/etc/kubernetes/kubelet.conf"),
        ("ctr", *_NAMESPACE, *_IMPORT),
    ),
)


def socket_loader(socket: str) -> tuple[str, ...]:
    """The command for a containerd of which only the socket is known."""
    return ("ctr", "--address", socket, *_NAMESPACE, *_IMPORT)


def of_server(exists: Callable[[Path], bool]) -> Distribution | None:
    """The one whose administrator's kubeconfig is on this host."""
    return next((found for found in DISTRIBUTIONS if exists(found.kubeconfig)), None)


def of_node(exists: Callable[[Path], bool]) -> Distribution | None:
    """The one that this host is a node of, as a server or not."""
    return of_server(exists) or next((found for found in DISTRIBUTIONS if exists(found.sign)), None)
