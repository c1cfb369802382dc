"""A loop over a kind that the server may not have yet: it begins once the kind and all that it needs are known.

Made by the controller role. An older API role of a cluster that is being upgraded has not brought the kind yet; VMs do
not wait for that.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, Protocol

from kvedge.kube.informer import Informer
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.runtime.background import BackgroundThread

_LOOK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 1.0


class _Loop(Protocol):
    loop: ReconcileLoop

    def stop(self) -> None:
        """End all threads."""


class LateWork:
    """Informers of its own, and the loop over them, as one part of the controller."""

    def __init__(
        self,
        name: str,
        informers: Sequence[Informer[Any]],
        shared: Sequence[Informer[Any]],
        loop: _Loop,
        perhaps: Sequence[Informer[Any]] = (),
        beside: Sequence[ReconcileLoop] = (),
    ) -> None:
        """`shared` are started and stopped by others; `loop` follows all of them.

        `perhaps` are started and stopped here, and nothing waits for them: others may bring their kinds, or never.
        `beside` are loops that `loop` starts and stops, and whose failure is its own.
        """
        self._informers = (*informers, *perhaps)
        self._waiting = (*informers, *shared)
        self._loop = loop
        self._beside = beside
        self._stopped = threading.Event()
        self._thread = BackgroundThread(f"{name}-start", self._begin)

    def start(self) -> None:
        """Begin to list; the loop begins when everything is known."""
        for informer in self._informers:
            informer.start()
        self._thread.start()

    def stop(self) -> None:
        """End all threads."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)
        self._loop.stop()
        for informer in self._informers:
            informer.stop()

    def failure(self) -> str | None:
        """Why it no longer works, or None."""
        parts: tuple[Informer[Any] | ReconcileLoop, ...] = (*self._informers, self._loop.loop, *self._beside)
        return next((why for each in parts if (why := each.failure()) is not None), None)

    @property
    def trouble(self) -> str:
        """With what its beginning fails again and again; empty when it does not."""
        return self._thread.trouble

    def _begin(self) -> None:
        while not all(informer.wait_synced(_LOOK_SECONDS) for informer in self._waiting):
            if self._stopped.is_set():
                return
        self._loop.loop.start()
