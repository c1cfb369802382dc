"""Copies of volumes that are under way: a copy may take long, and other claims are bound meanwhile.

Made by the volumes' service, used by the provisioner. A copy that is interrupted leaves nothing, and is begun anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kvedge.runtime.background import passing_thread
from kvedge.storage.volumes.volume_driver import VolumeDriverError


class CopyJobs:
    """Each copy by the name of the volume that it makes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        # None while it runs, then why it failed: of one that is made there is the volume itself.
        self._outcomes: dict[str, VolumeDriverError | None] = {}

    def is_under_way(self, name: str) -> bool:
        """Whether that volume is being made."""
        with self._lock:
            return name in self._outcomes and self._outcomes[name] is None

    def begin(self, name: str, copy: Callable[[Callable[[], None]], object]) -> None:
        """Begin a copy, unless it is under way. `copy` gets a call that raises to give up.

        Raises:
            VolumeDriverError: the last one failed; the next call begins it anew.
        """
        with self._lock:
            if name not in self._outcomes:
                self._outcomes[name] = None
                passing_thread(f"copy-{name}"[:15], self._run, name, copy)
                return
            outcome = self._outcomes[name]
            if outcome is None:
                return
            del self._outcomes[name]
        raise outcome

    def stop(self) -> None:
        """Give up what is under way, at its next look."""
        self._stopping.set()

    def _run(self, name: str, copy: Callable[[Callable[[], None]], object]) -> None:
        outcome: VolumeDriverError | None = VolumeDriverError("the copy failed: the log has the cause")
        try:
            copy(self._keep_on)
            outcome = None
        except VolumeDriverError as error:
            outcome = error
        finally:
            with self._lock:
                if outcome is None:
                    del self._outcomes[name]
                else:
                    self._outcomes[name] = outcome

    def _keep_on(self) -> None:
        if self._stopping.is_set():
            raise VolumeDriverError("kvedge stops: the copy is made at its next start")
