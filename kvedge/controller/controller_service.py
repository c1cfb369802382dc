"""The controller role as a service: its work, and the lease that keeps it alone.

Started by `kvedge controller`, `kvedge node` and `kvedge standalone`. Talks to one API server. Only the holder of the
lease watches and works; without an election (one box has only one) it works from the start.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from functools import partial
from pathlib import Path
from typing import Final

from kvedge.controller.alarms.words.teller_desk import WordPlaces
from kvedge.controller.controller_work import ControllerWork
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.kube.events import EventRecorder
from kvedge.kube.figures.process_figures import CONTROLLER_LEADS, CONTROLLER_READY, forget_state, register_state
from kvedge.kube.inner_door import InnerDoor
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.leases import LeaderElection
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.runtime.clock import Clock, SystemClock
from kvedge.runtime.role import Part, Parts, part

log = logging.getLogger(__name__)

LEASE_NAME: Final = "virt-controller"
_COMPONENT: Final = "virtualmachine-controller"
_SYNC_SECONDS: Final = 60.0


class ControllerError(Exception):
    """The controller could not start; the text says why."""


class ControllerRole:
    """Which VMIs and launcher Pods must exist."""

    name = "controller"

    def __init__(
        self,
        kubeconfig: str | Path,
        config: ClusterConfig,
        leader_election: bool,
        clock: Clock | None = None,
        words: WordPlaces | None = None,
        door: InnerDoor | None = None,
    ) -> None:
        """`words` is where this host says who is told of alarms; `door` leads to an API server of this process."""
        self._kubeconfig = kubeconfig
        self._door = door
        self._words = words or WordPlaces()
        self._config = config
        self._elects = leader_election
        self._clock = clock or SystemClock()
        self._election: LeaderElection | None = None
        self._parts = Parts()
        self._work: ControllerWork | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin; returns when it works, or campaigns for the lease.

        Raises:
            KubeconfigError: when the kubeconfig cannot be used.
            ControllerError: when the server does not answer, or does not know the kinds.
        """
        client = KubeClient.from_kubeconfig(self._kubeconfig, "kvedge-controller", self._door)
        if self._elects:
            self._election = self._campaign(client)
        self._parts = Parts(self._make_parts(client))
        register_state(CONTROLLER_READY, lambda: self.ready)
        register_state(CONTROLLER_LEADS, lambda: self._work is not None)
        self._parts.start()

    def stop(self) -> None:
        """End all work, then give the lease back."""
        self._parts.stop()
        forget_state(CONTROLLER_READY)
        forget_state(CONTROLLER_LEADS)

    def _campaign(self, client: KubeClient) -> LeaderElection:
        identity = f"{socket.gethostname()}_{os.getpid()}_{time.time_ns():x}"
        return LeaderElection(client, SYSTEM_NAMESPACE, LEASE_NAME, identity, lambda: self._begin(client), self._end)

    def _make_parts(self, client: KubeClient) -> list[Part]:
        parts = [Part("client", stop=client.close)]
        if self._election is None:
            return [
                *parts,
                Part("work", partial(self._begin_alone, client), self._end, self._work_failure, ("client",)),
            ]
        # The lease ends the work before it is given back. A leader that cannot renew it writes nothing any more, and
        # nobody else begins: a failure as well.
        lease = part("lease", self._election, "work")
        return [*parts, Part("work", stop=self._end, failure=self._work_failure, needs=("client",)), lease]

    @property
    def ready(self) -> bool:
        """Whether it works, or stands by for a leader that does."""
        with self._lock:
            if self._work is not None:
                return self._work.is_synced and not self._work.trouble
            return self._election is not None and not self._election.is_leader

    def failure(self) -> str | None:
        """Why it no longer serves, or None."""
        return self._parts.failure()

    def _work_failure(self) -> str | None:
        with self._lock:
            return None if self._work is None else self._work.failure()

    def summary(self) -> str:
        """Why nothing is planned, for systemd's status line; empty when it is, or when another controller leads."""
        with self._lock:
            trouble = "" if self._work is None else self._work.trouble
        return f"the controller cannot begin: {trouble}" if trouble else ""

    def _begin(self, client: KubeClient) -> None:
        leading = client if self._election is None else client.guard_writes(self._election.holds)
        events = EventRecorder(client, _COMPONENT, clock=self._clock)
        work = ControllerWork(leading, events, self._config, self._clock, self._words)
        with self._lock:
            self._work = work
        work.start()

    def _end(self) -> None:
        with self._lock:
            work, self._work = self._work, None
        if work is not None:
            work.stop()

    def _begin_alone(self, client: KubeClient) -> None:
        self._begin(client)
        with self._lock:
            work = self._work
        if work is not None and not work.wait_synced(_SYNC_SECONDS):
            raise ControllerError(
                f"{client.host} did not list VirtualMachines, VirtualMachineInstances, Pods, Nodes and claims within"
                f" {_SYNC_SECONDS:.0f} s: is it up, and are kvedge's CRDs installed?"
            )
