"""Which annotations of a VMI its launcher Pod gets: the right to make VMs is none to decide how Pods are confined.

Called by the launcher Pod's manifest, and by admission, which warns of what is left out. Pure.

KubeVirt hands all annotations on. Those below are orders to the node and its network rather than notes: they take a
container's confinement away, or give a Pod other networks and addresses than those that it is to have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvedge.resources.types.sriov_networks import NETWORK_INFO

# What the API server and kubelets read: profiles of AppArmor and seccomp.
_CONFINEMENT: Final = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
)
# What CRI-O, containerd and Kata read.
_RUNTIMES: Final = ("io.kubernetes.cri", "io.containerd.", "io.katacontainers.", "run.oci.")
_CRIO: Final = ".crio.io"
# What Multus and CNI plugins read: which networks, which addresses.
_NETWORKS: Final = (
    "k8s.v1.cni.cncf.io/",
    "v1.multus-cni.io/",
    "cni.projectcalico.org/",
    "ipam.cilium.io/",
    "ipam.antrea.io/",
    "ovn.kubernetes.io/",
    "k8s.ovn.org/",
)
# What the controller itself writes down: which devices the Pod's networks have.
_TOLD: Final = (NETWORK_INFO,)
_KEPT_BACK: Final = (*_CONFINEMENT, *_RUNTIMES, *_NETWORKS, *_TOLD)


def reaches_pod(annotation: str) -> bool:
    """Whether a VMI's annotation of this name is its launcher Pod's too."""
    return not annotation.startswith(_KEPT_BACK) and not annotation.partition("/")[0].endswith(_CRIO)


def find_kept_back(annotations: Iterable[str]) -> list[str]:
    """The annotations that no launcher Pod gets, sorted."""
    return sorted(name for name in annotations if not reaches_pod(name))
