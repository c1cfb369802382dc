"""What keeps ReplicaSets, as one part of the controller: it begins once the server has the kind.

Made by the controller role. An older API role of a cluster that is being upgraded has not brought the kind yet; VMs do
not wait for that.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from kvedge.controller.replicas.replica_loop import ReplicaLoop, ReplicaSources
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 1.0


class ReplicaWork:
    """The informer of sets, and the loop over them."""

    def __init__(
        self, client: KubeClient, vmis: Informer[VirtualMachineInstance], events: EventRecorder, clock: Clock
    ) -> None:
        """`vmis` is started and stopped by others, and has not been started yet."""
        self._sets = Informer(client, VirtualMachineInstanceReplicaSet)
        self._vmis = vmis
        self._loop = ReplicaLoop(ReplicaSources(client, self._sets, vmis, events, clock))
        self._stopped = threading.Event()
        # Whether the loop hears of changes.
        self._follows = False
        self._begun = False
        self._thread = BackgroundThread("replicas-start", self._begin)

    def start(self) -> None:
        """Begin to list; the loop follows when everything is known."""
        self._sets.start()
        self._thread.start()

    def stop(self) -> None:
        """End all threads."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)
        self._loop.stop()
        self._sets.stop()

    def failure(self) -> str | None:
        """Why it no longer works, or None."""
        return self._sets.failure() or (self._loop.loop.failure() if self._begun else None)

    @property
    def trouble(self) -> str:
        """With what its beginning fails again and again; empty when it does not."""
        return self._thread.trouble

    def _begin(self) -> None:
        while not (self._sets.wait_synced(_LOOK_SECONDS) and self._vmis.wait_synced(_LOOK_SECONDS)):
            if self._stopped.is_set():
                return
        if self._follows:
            # It was tried before, and begins anew: each change is told once all the same.
            self._loop.loop.start()
        else:
            self._follows = True
            self._loop.start()
        self._begun = True
        log.info("ReplicaSets are kept", extra={"facts": {"replicaSets": len(self._sets.list())}})
