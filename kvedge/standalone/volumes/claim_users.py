"""Which Pods use a claim. Pure.

Called by the claims' loop, which keeps a claim as long as one does, and before a claim is copied or snapshotted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvedge.resources.names import DOMAIN, VM_NAME
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod


def claims_of(pod: Pod) -> Iterator[str]:
    """The names of the claims that a Pod uses, in its own namespace."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name


def pods_with(namespace: str, claim: str, pods: Iterable[Pod]) -> list[Pod]:
    """The Pods that use a claim: on a node, and not over. A Pod that waits for a node gets none with such a claim."""
    return [
        pod
        for pod in pods
        if pod.metadata.namespace == namespace
        and pod.spec.node_name
        and pod.status.phase not in FINAL_POD_PHASES
        and claim in claims_of(pod)
    ]


def users_of(namespace: str, claim: str, pods: Iterable[Pod]) -> list[str]:
    """The names of the Pods that use a claim."""
    return sorted(pod.metadata.name for pod in pods_with(namespace, claim, pods))


def describe_users(namespace: str, claim: str, pods: Iterable[Pod]) -> list[str]:
    """Who uses a claim, as users know them: VMs by the Pods of their runs and hotplugged volumes, else Pods."""
    known = list(pods)
    by_uid = {pod.metadata.uid: pod for pod in known}
    found = set()
    for pod in pods_with(namespace, claim, known):
        owner = pod.metadata.controller_reference()
        launcher = by_uid.get(owner.uid, pod) if owner is not None else pod
        vm = launcher.metadata.annotations.get(DOMAIN) or launcher.metadata.labels.get(VM_NAME)
        found.add(f"VM {vm}" if vm else f"Pod {pod.metadata.name}")
    return sorted(found)
