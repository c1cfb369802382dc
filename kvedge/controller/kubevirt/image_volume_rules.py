"""Whether container disks can be image volumes: whether every node that VMs may run on mounts images as volumes.

Called by the controller's view of the nodes. Pure. Where one node cannot, containers of the images are used throughout:
which node a Pod comes to is the scheduler's choice, after the Pod was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kvedge.resources.configuration.feature_gates import FeatureGates
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.types.core import Node

GATE: Final = "ImageVolume"
# From this version on kubelets have the feature without being told to.
_KUBELET: Final = (1, 35)
# The runtimes that are known to need a version for it; any other one is taken at its kubelet's word.
_RUNTIMES: Final = {"containerd": (2, 1), "cri-o": (1, 31)}
# The node agent of one box. It has always mounted images, and runs no init containers that go on, which containers of
# images are: there the gate has nothing to choose between.
_AGENT: Final = "kvedge"
# cri-dockerd never got it.
_NEVER: Final = frozenset({"docker"})
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def uses_image_volumes(nodes: Iterable[Node], gates: FeatureGates) -> bool:
    """Whether Pods made now have image volumes.

    The KubeVirt object's word wins over what nodes say of themselves, except where nodes know no other way.
    """
    counted = _choose_counted_nodes(nodes)
    if counted and all(_runtime(node)[0] == _AGENT for node in counted):
        return True
    if GATE in gates.disabled:
        return False
    return GATE in gates.enabled or not unable_nodes(counted)


def unable_nodes(nodes: Iterable[Node]) -> list[str]:
    """The names of the nodes that cannot mount images, among those that VMs run on.

    A node counts once a handler has labelled it, also while its handler is away: VMs come back to it. As long as there
    is none, every node counts.
    """
    return sorted(node.metadata.name for node in _choose_counted_nodes(nodes) if not mounts_images(node))


def mounts_images(node: Node) -> bool:
    """Whether this node's kubelet and container runtime mount images as volumes, by their versions."""
    runtime, version = _runtime(node)
    return _mounts_images(runtime, version, str(node.status.node_info.get("kubeletVersion", "")))


def _choose_counted_nodes(nodes: Iterable[Node]) -> list[Node]:
    known = list(nodes)
    return [node for node in known if SCHEDULABLE in node.metadata.labels] or known


def _runtime(node: Node) -> tuple[str, str]:
    """The name of a node's container runtime, and its version."""
    name, _, version = str(node.status.node_info.get("containerRuntimeVersion", "")).partition("://")
    return name, version


# Asked for each node whenever a Pod is made; a cluster has few versions.
@lru_cache(maxsize=256)
def _mounts_images(runtime: str, version: str, kubelet: str) -> bool:
    if runtime in _NEVER:
        return False
    if runtime not in _RUNTIMES:
        return True
    return _numbers(version) >= _RUNTIMES[runtime] and _numbers(kubelet) >= _KUBELET


def _numbers(version: str) -> tuple[int, int]:
    found = _VERSION.match(version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
