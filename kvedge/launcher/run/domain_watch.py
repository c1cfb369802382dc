"""The thread that looks at the domain: after each event, and now and then for the event that never came.

Kept by `domain_run`. Events and the guest's leases only say when to look. The thread also has the log files looked
after, and returns free memory when nothing goes on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.process_memory import give_back

log = logging.getLogger(__name__)

# Events say when to look; this is for the one that never came.
LOOK_AGAIN_SECONDS: Final = 10.0
SOON_SECONDS: Final = 1.0
# How long nothing must have happened before memory that is free is returned.
TIDY_SECONDS: Final = 1.0


class DomainWatch:
    """The watch over one domain; `look_soon` and `tidy_soon` may be called from any thread."""

    def __init__(self, on_round: Callable[[], bool]) -> None:
        """`on_round()` is called every few seconds, or sooner when it says so."""
        self._on_round = on_round
        self._wanted = threading.Event()
        # Whether start-up, or the making of the domain, has left memory free that can be returned.
        self._untidy = True

    def start(self, look: Callable[[], object]) -> BackgroundThread:
        """Begin to watch; `look()` reads the domain."""
        thread = BackgroundThread("domain-watch", lambda: self._watch(look))
        thread.start()
        return thread

    def look_soon(self) -> None:
        """Something has happened."""
        self._wanted.set()

    def tidy_soon(self) -> None:
        """Memory has become free."""
        self._untidy = True

    def _watch(self, look: Callable[[], object]) -> None:
        soon = False
        while True:
            patience = TIDY_SECONDS if self._untidy else SOON_SECONDS if soon else LOOK_AGAIN_SECONDS
            if not self._wanted.wait(patience) and self._untidy:
                # Not earlier: it takes 10 ms, in which nothing else goes on here.
                self._untidy = False
                give_back()
                continue
            self._wanted.clear()
            try:
                look()
            except LauncherError as error:
                # libvirt is busy or the domain is just going; the next event or the timer looks again.
                log.warning("could not look at the domain", extra={"facts": {"why": str(error)}})
            soon = self._on_round()
