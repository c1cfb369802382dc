"""The fencer of a node as a service, beside the handler and not within it.

Started by `kvedge node` and `kvedge handler`, before the handler role, and stopped after it. It has its own connection
to the API and its own threads: nothing that holds up the handler's work holds up this. One box has no fencer: nobody
else could start its VMs.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.handler.fencing.fence_keeper import FenceKeeper, FenceTools
from kvedge.handler.fencing.guest_killer import kill_left
from kvedge.handler.fencing.lease_door import LeaseDoor
from kvedge.handler.fencing.node_guests import NodeGuests
from kvedge.handler.fencing.promise_record import PromiseRecord
from kvedge.handler.fencing.watchdog_device import Watchdog, WatchdogDevice, load_softdog
from kvedge.handler.launchers.launcher_remains import runs_here
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import SystemClock
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.runtime.role import Part, Parts, part, unfailing

_COMPONENT: Final = "virt-handler"
_STOP_SECONDS: Final = 5.0


class FenceConfig(Struct, frozen=True):
    """The settings of one node's fencer."""

    kubeconfig: Path
    node: str
    # The file in which it keeps what it has promised.
    record: Path


def arm_device(seconds: int) -> Watchdog:
    """The machine's own watchdog, armed. Raises WatchdogError."""
    load_softdog()
    return WatchdogDevice(seconds)


class FenceService:
    """Ends guests of this node when it has lost its API."""

    name = "fencing"

    def __init__(self, config: FenceConfig) -> None:
        self._config = config
        self._keeper: FenceKeeper | None = None
        self._parts = Parts()
        self._stopping = threading.Event()
        self._looking = BackgroundThread("fencer", self._look_on)
        self._renewing = BackgroundThread("fence-lease", self._renew_on)

    def start(self) -> None:
        """Find what was promised, look at once, and go on looking; nothing waits for the API.

        Raises:
            OSError: where /proc has no boot id.
        """
        config = self._config
        client = KubeClient.from_kubeconfig(config.kubeconfig, "kvedge-fencing")
        events = EventRecorder(client, _COMPONENT, config.node)
        wishes = NodeGuests(client, config.node)
        node = Node(metadata=ObjectMeta(name=config.node, uid=config.node))
        tools = FenceTools(
            door=LeaseDoor(client, config.node, SystemClock()),
            record=PromiseRecord(config.record),
            wishes=wishes,
            arm=arm_device,
            kill=kill_left,
            runs=runs_here,
            boottime=partial(time.clock_gettime, time.CLOCK_BOOTTIME),
            tell=partial(events.record, node, "Warning"),
        )
        self._keeper = FenceKeeper(tools, config.node, read_boot_id())
        self._keeper.load()
        self._parts = Parts(
            [
                Part("client", stop=client.close),
                unfailing("events", events, "client"),
                part("wishes", wishes, "client"),
                Part("looks", self._looking.start, self._stop_threads, self._looking.failure, ("events",)),
                Part("renewals", self._renewing.start, failure=self._renewing.failure, needs=("wishes", "events")),
            ]
        )
        self._parts.start()

    def stop(self) -> None:
        """Say that nothing is promised any more, and stop the watchdog; guests go on."""
        self._parts.stop()

    def failure(self) -> str | None:
        """Why nobody looks or renews any more."""
        return self._parts.failure()

    def refuse_start(self, vmi_uid: str) -> str:
        """Why nothing of a VMI may begin on this node now; empty when it may."""
        return "" if self._keeper is None else self._keeper.refuse_start(vmi_uid)

    def _stop_threads(self) -> None:
        self._stopping.set()
        for thread in (self._renewing, self._looking):
            thread.join(_STOP_SECONDS)
        assert self._keeper is not None
        self._keeper.leave()

    def _look_on(self) -> None:
        assert self._keeper is not None
        while not self._stopping.is_set():
            self._looking.heartbeat.beat()
            self._keeper.look()
            self._stopping.wait(self._keeper.terms.check)

    def _renew_on(self) -> None:
        assert self._keeper is not None
        while not self._stopping.is_set():
            self._renewing.heartbeat.beat()
            self._keeper.renew()
            self._stopping.wait(self._keeper.terms.renew)
