"""Which disks are on one node alone: their VMs cannot start elsewhere when that node is lost.

Called by the loop of VMIs for guests that are gone with their node. Asks the server for volumes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim

_HOST_NAMES = frozenset({"kubernetes.io/hostname", "topology.kubernetes.io/node"})


def find_local_claim(client: KubeClient, claims: Iterable[PersistentVolumeClaim]) -> str:
    """The first claim whose volume is on one node; empty when all can come elsewhere.

    Raises:
        KubeError: when the server does not say.
    """
    for claim in claims:
        if not claim.spec.volume_name:
            continue
        try:
            volume = client.get(PersistentVolume, "", claim.spec.volume_name)
        except NotFound:
            continue
        if is_of_one_node(volume):
            return claim.metadata.name
    return ""


def is_of_one_node(volume: PersistentVolume) -> bool:
    """Whether a volume can be used on one node only."""
    if volume.spec.local is not None:
        return True
    required = (volume.spec.node_affinity or {}).get("required") or {}
    terms = required.get("nodeSelectorTerms") or []
    return bool(terms) and all(_names_one_node(term) for term in terms) and len(terms) == 1


def _names_one_node(term: dict[str, Any]) -> bool:
    expressions = [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
    return any(_is_one_host(each) for each in expressions)


def _is_one_host(expression: dict[str, Any]) -> bool:
    """A label that each node has for itself, such as kubernetes.io/hostname or a CSI driver's own, with one value."""
    key, values = str(expression.get("key", "")), expression.get("values") or []
    is_of_host = key in _HOST_NAMES or key == "metadata.name" or key.endswith(("/hostname", "/node"))
    return expression.get("operator") == "In" and len(values) == 1 and is_of_host
