"""Which Pods use a claim. Pure.

Called by the claims' loop, which keeps a claim as long as one does, and by the provisioner before it copies one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod


def claims_of(pod: Pod) -> Iterator[str]:
    """The names of the claims that a Pod uses, in its own namespace."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name


def users_of(namespace: str, claim: str, pods: Iterable[Pod]) -> list[str]:
    """The Pods that use a claim: on a node, and not over. A Pod that waits for a node gets none with such a claim."""
    return sorted(
        pod.metadata.name
        for pod in pods
        if pod.metadata.namespace == namespace
        and pod.spec.node_name
        and pod.status.phase not in FINAL_POD_PHASES
        and claim in claims_of(pod)
    )
