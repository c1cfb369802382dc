"""What keeps pools, as one part of the controller: it begins once the server has the kind.

Made by the controller role; see `replica_work`.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from kvedge.controller.pools.pool_loop import PoolLoop, PoolSources
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.scaling.pools import REVISION_OF_POOL, VirtualMachinePool
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 1.0


class PoolWork:
    """The informers of pools and their revisions, and the loop over them."""

    def __init__(
        self,
        client: KubeClient,
        vms: Informer[VirtualMachine],
        vmis: Informer[VirtualMachineInstance],
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        """`vms` and `vmis` are started and stopped by others, and have not been started yet."""
        self._pools = Informer(client, VirtualMachinePool)
        self._revisions = Informer(client, ControllerRevision, label_selector=REVISION_OF_POOL)
        self._waiting: tuple[Informer[Any], ...] = (self._pools, self._revisions, vms, vmis)
        self._loop = PoolLoop(PoolSources(client, self._pools, vms, vmis, self._revisions, events, clock))
        self._stopped = threading.Event()
        # Whether the loop hears of changes.
        self._follows = False
        self._begun = False
        self._thread = BackgroundThread("pools-start", self._begin)

    def start(self) -> None:
        """Begin to list; the loop follows when everything is known."""
        self._pools.start()
        self._revisions.start()
        self._thread.start()

    def stop(self) -> None:
        """End all threads."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)
        self._loop.stop()
        self._pools.stop()
        self._revisions.stop()

    def failure(self) -> str | None:
        """Why it no longer works, or None."""
        own = self._pools.failure() or self._revisions.failure()
        return own or (self._loop.loop.failure() if self._begun else None)

    @property
    def trouble(self) -> str:
        """With what its beginning fails again and again; empty when it does not."""
        return self._thread.trouble

    def _begin(self) -> None:
        while not all(informer.wait_synced(_LOOK_SECONDS) for informer in self._waiting):
            if self._stopped.is_set():
                return
        if self._follows:
            # It was tried before, and begins anew: each change is told once all the same.
            self._loop.loop.start()
        else:
            self._follows = True
            self._loop.start()
        self._begun = True
        log.info("pools are kept", extra={"facts": {"pools": len(self._pools.list())}})
