"""Gives the addresses of Pods back: at once when their owners go, and now and then also those whose end nobody saw.

A part of the node agent; one named thread, which waits for deletions.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from kvedge.kube.errors import KubeError
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock
from kvedge.standalone.agent.pod.pod_addresses import PodAddresses

log = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0


class AddressSweep:
    """Runs from its start to its stop, and once."""

    def __init__(self, addresses: PodAddresses, clock: Clock) -> None:
        self._addresses = addresses
        self._clock = clock
        self._stop = threading.Event()
        self._thread = BackgroundThread("address-sweep", self._run)

    def start(self) -> None:
        """Begin; the addresses must be followed by now."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._addresses.end_wait()
        self._thread.join(_STOP_SECONDS)

    def failure(self) -> str | None:
        """Why addresses are not given back any more, or None."""
        return self._thread.failure()

    def _run(self) -> None:
        swept = self._clock.monotonic()
        while not self._stop.is_set():
            try:
                self._addresses.release_next(_SWEEP_SECONDS)
                if self._clock.monotonic() - swept >= _SWEEP_SECONDS:
                    swept = self._clock.monotonic()
                    self._addresses.sweep()
            except KubeError as error:
                log.warning("addresses were not looked through", extra={"facts": {"error": str(error)}})
