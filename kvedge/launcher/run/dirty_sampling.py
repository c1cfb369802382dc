"""How fast the guest changes its memory, measured while somebody wants to know, and no more often than is needed.

Kept by `guest_stats`, which calls it for one caller at a time. QEMU looks at some pages of each GiB, and a second later
at the same ones again: nobody waits for that. What it found is told to the next one that asks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.runtime.background import passing_thread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

# From one measurement to the next. Prometheus asks each half minute, as most have it.
PAUSE_SECONDS: Final = 25.0


def _run_beside(work: Callable[[], None]) -> None:
    passing_thread("dirty-rate", work)


class DirtySampling:
    """The measurements of one guest."""

    def __init__(
        self,
        session: LibvirtSession,
        monotonic: Callable[[], float] = time.monotonic,
        run: Callable[[Callable[[], None]], object] = _run_beside,
    ) -> None:
        """`run` does something beside: while another call has the guest, libvirt would keep the caller waiting."""
        self._session = session
        self._monotonic = monotonic
        self._run = run
        self._beginning = threading.Lock()
        self._begun: float | None = None

    def read(self) -> int | None:
        """Bytes a second, by the last measurement; None when there is none yet, and where nothing is measured."""
        now = self._monotonic()
        try:
            # An answer of long ago is not told: whoever asked for it has stopped asking.
            found = (
                self._session.dirty_rate.read()
                if self._begun is not None and now - self._begun < 4 * PAUSE_SECONDS
                else None
            )
            if self._begun is None or now - self._begun >= PAUSE_SECONDS:
                self._begun = now
                self._run(self._begin)
        except LauncherError as error:
            log.debug("how fast memory changes is not known", extra={"facts": {"why": str(error)}})
            return None
        return found

    def _begin(self) -> None:
        # One that waits for its turn is enough.
        if not self._beginning.acquire(blocking=False):
            return
        try:
            self._session.dirty_rate.begin()
        except LauncherError as error:
            log.debug("how fast memory changes is not measured", extra={"facts": {"why": str(error)}})
        finally:
            self._beginning.release()
