"""Ends workers' Pods: those that a plan ends, and those that nobody needs any more and no owner takes away.

Used by the loop of DataVolumes. A Pod that sends a claim to another namespace has no owner there, and a claim that
takes an upload of its own has no DataVolume.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kvedge.controller.datavolumes.remote_clone_plan import sender_target
from kvedge.kube.errors import KubeError
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.observed_delete import delete_observed
from kvedge.kube.work_queue import Key
from kvedge.resources.data_volume_names import CLONE_TARGET
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim

log = logging.getLogger(__name__)

_SENDER_INDEX: Final = "clone-target"


class WorkerEnds:
    """Ends workers' Pods."""

    def __init__(self, client: KubeClient, workers: Informer[Pod]) -> None:
        """Call it before the informer of workers starts, which gets an index."""
        self._client = client
        self._workers = workers
        workers.add_index(_SENDER_INDEX, targets_of)

    def senders_to(self, namespace: str, name: str) -> Sequence[Pod]:
        """The Pods that send to a DataVolume, as they themselves say."""
        return self._workers.find_indexed(_SENDER_INDEX, f"{namespace}/{name}")

    def end_strangers(self, key: Key, dv: DataVolume | None) -> bool:
        """End what sends to a DataVolume that is gone: no owner takes it away, as that was of another namespace.

        Whether some could not be ended. The DataVolume itself waits for none of them: anybody may have made them.
        """
        some_stay = False
        for pod in self.senders_to(*key):
            is_for = pod.metadata.labels.get(CLONE_TARGET)
            if pod.metadata.deletion_timestamp is None and (dv is None or dv.metadata.uid != is_for):
                some_stay |= not self._is_ended(pod)
        return some_stay

    def end_uploads(self, claim: PersistentVolumeClaim) -> None:
        """End the worker of a claim that takes no upload any more: somebody took the mark off, to use what is in it."""
        for pod in self._workers.find_owned_by(claim.metadata.uid):
            if pod.metadata.deletion_timestamp is None and pod.metadata.namespace == claim.metadata.namespace:
                self._is_ended(pod)

    def _is_ended(self, pod: Pod) -> bool:
        """End a Pod that may be a stranger's; whether the server did so."""
        try:
            self.delete(pod)
        except KubeError as error:
            where = f"{pod.metadata.namespace}/{pod.metadata.name}"
            log.warning("a worker that nobody needs stays", extra={"facts": {"pod": where, "error": str(error)}})
            return False
        return True

    def delete(self, pod: Pod) -> None:
        """End a worker.

        Raises:
            KubeError: when the server refuses.
        """
        delete_observed(self._client, self._workers, pod)


def targets_of(pod: Pod) -> tuple[str, ...]:
    """Namespace and name of the DataVolume that a Pod sends to; none for other Pods."""
    target = sender_target(pod)
    return (target,) if target else ()
