"""What sends a claim of another namespace to the worker that fills a DataVolume's claim.

Called by worker_plan.py. Pure. The sender is made once the worker takes data, and goes with it: it is nobody's of
its own namespace, so that it is looked for by whom it is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from kvedge.controller.datavolumes.workers.worker_outcome import WorkerSeen, look_at_worker
from kvedge.resources.data_volume_names import CLONE_TARGET, POD_PHASE
from kvedge.resources.disks.uploads import CLONE_SENDER_PREFIX, clone_sender_name
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim


class CreateSender(Struct, frozen=True):
    """Start the sender, with a certificate for this claim's worker alone."""

    claim: PersistentVolumeClaim
    pod: Pod


class KeepCertificate(Struct, frozen=True):
    """Have the certificate there for which a sender's Pod waits."""

    claim: PersistentVolumeClaim
    pod: Pod


SenderAction: TypeAlias = CreateSender | KeepCertificate


def is_remote(dv: DataVolume, source: PersistentVolumeClaim | None) -> bool:
    """Whether the source lies in another namespace than the DataVolume."""
    return source is not None and source.metadata.namespace != dv.metadata.namespace


def sender_target(pod: Pod) -> str:
    """Namespace and name of the DataVolume that a sender says it is for; empty for a Pod that can be no sender.

    A user who may make Pods anywhere may label one so: nothing of a DataVolume may depend on this label alone.
    """
    meta, kind = pod.metadata, PersistentVolumeClaim.KIND
    is_owned = any((owner.api_version, owner.kind) == (kind.version, kind.kind) for owner in meta.owner_references)
    can_be = meta.name.startswith(CLONE_SENDER_PREFIX) and is_owned and CLONE_TARGET in meta.labels
    return meta.annotations.get(CLONE_TARGET, "") if can_be else ""


def own_senders(
    claim: PersistentVolumeClaim | None, source: PersistentVolumeClaim | None, pods: Sequence[Pod]
) -> list[Pod]:
    """Those of `pods` that send this source to this claim: where they are and what they are called proves it.

    A user who may make Pods elsewhere could label one so.
    """
    if claim is None or source is None:
        return []
    place = (source.metadata.namespace, clone_sender_name(claim.metadata.uid))
    return [pod for pod in pods if (pod.metadata.namespace, pod.metadata.name) == place]


def takes_data(claim: PersistentVolumeClaim | None, workers: Sequence[Pod]) -> bool:
    """Whether a worker still fills the claim: without one nobody needs a sender."""
    if claim is None or claim.metadata.annotations.get(POD_PHASE) == "Succeeded":
        return False
    lively = (pod for pod in workers if pod.metadata.deletion_timestamp is None)
    return any(pod.status.phase not in FINAL_POD_PHASES for pod in lively)


def plan_sender(
    claim: PersistentVolumeClaim, made: Pod, there: Sequence[Pod]
) -> tuple[SenderAction | None, WorkerSeen | None]:
    """What is to be done, and what is seen of the sender that is there; `made` is the one to make."""
    sender = next((pod for pod in there if pod.metadata.deletion_timestamp is None), None)
    if sender is None:
        # The last one still ends, and has the name.
        return (None if there else CreateSender(claim, made)), None
    seen = look_at_worker(sender)
    waits = not seen.running and not seen.ended
    return (KeepCertificate(claim, sender) if waits else None), seen
