"""Whether container disks can be image volumes: whether every node that VMs may run on mounts images as volumes.

Called by the controller's view of the nodes. Pure. Where one node cannot, containers of the images are used throughout:
which node a Pod comes to is the scheduler's choice, after the Pod was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kvedge.resources.core import Node
from kvedge.resources.feature_gates import FeatureGates
from kvedge.resources.names import SCHEDULABLE

GATE: Final = "ImageVolume"
# From this version on kubelets have the feature without being told to.
_KUBELET: Final = (1, 35)
# The runtimes that are known to need a version for it; any other one is taken at its kubelet's word.
_RUNTIMES: Final = {"containerd": (2, 1), "cri-o": (1, 31)}
# cri-dockerd never got it.
_NEVER: Final = frozenset({"docker"})
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def uses_image_volumes(nodes: Iterable[Node], gates: FeatureGates) -> bool:
    """Whether Pods made now have image volumes; the KubeVirt object's word wins over what nodes say of themselves."""
    if GATE in gates.disabled:
        return False
    return GATE in gates.enabled or not unable_nodes(nodes)


def unable_nodes(nodes: Iterable[Node]) -> list[str]:
    """The names of the nodes that cannot mount images, among those that VMs run on.

    A node counts once a handler has labelled it, also while its handler is away: VMs come back to it. As long as there
    is none, every node counts.
    """
    known = list(nodes)
    handled = [node for node in known if SCHEDULABLE in node.metadata.labels]
    return sorted(node.metadata.name for node in handled or known if not mounts_images(node))


def mounts_images(node: Node) -> bool:
    """Whether this node's kubelet and container runtime mount images as volumes, by their versions."""
    info = node.status.node_info
    return _mounts_images(str(info.get("containerRuntimeVersion", "")), str(info.get("kubeletVersion", "")))


# Asked for each node whenever a Pod is made; a cluster has few versions.
@lru_cache(maxsize=256)
def _mounts_images(runtime_version: str, kubelet: str) -> bool:
    runtime, _, version = runtime_version.partition("://")
    if runtime in _NEVER:
        return False
    if runtime not in _RUNTIMES:
        return True
    return _numbers(version) >= _RUNTIMES[runtime] and _numbers(kubelet) >= _KUBELET


def _numbers(version: str) -> tuple[int, int]:
    found = _VERSION.match(version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
