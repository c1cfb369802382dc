"""The end of a role's process, whatever hangs: a registry that sends a byte a minute, a stuck event loop, a dead disk.

Set up by the service runner. Every part has its own time-outs on the way down; this is for the one that was forgotten,
and for threads that Python waits for when it exits. Ends the process; all that was answered is on disk by then, and
guests are not ours to end.

Telling what hung may itself hang: nobody reads standard error any more, or a stuck thread holds the lock of a log's
handler. So a thread of its own tells, and the end waits for it only a little.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import threading
from collections.abc import Callable
from typing import Final

from kvedge.runtime.background import passing_thread

log = logging.getLogger(__name__)

# Less than the 60 s that systemd (TimeoutStopSec) and a kubelet (terminationGracePeriodSeconds) give a role: they would
# kill it without a word about what hung.
EXIT_SECONDS: Final = 40.0
# Enough for some kilobytes into a pipe that somebody reads.
_TELL_SECONDS: Final = 5.0
_STANDARD_ERROR: Final = 2


def end_process() -> None:
    """End, and run nothing more of this process."""
    os._exit(1)


class LastExit:
    """Ends the process so many seconds after it was asked to stop, unless it has ended by then."""

    def __init__(self, stop: threading.Event, seconds: float, end: Callable[[], None] = end_process) -> None:
        """`stop` is set when the process is asked to stop."""
        # What is being stopped, for the log.
        self.busy_with = ""
        self._stop = stop
        self._seconds = seconds
        self._end = end
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="last-exit", daemon=True)

    def start(self) -> None:
        """Wait for the request to stop."""
        self._thread.start()

    def release(self) -> None:
        """The process goes on after all, as a test's does."""
        self._ended.set()
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        self._stop.wait()
        if self._ended.wait(self._seconds):
            return
        try:
            passing_thread("last-words", self._tell).join(_TELL_SECONDS)
        finally:
            # No thread may be left to be started.
            self._end()

    def _tell(self) -> None:
        with contextlib.suppress(OSError):
            _dump_threads()
        holding = [thread.name for thread in threading.enumerate() if not thread.daemon]
        facts = {"seconds": self._seconds, "stopping": self.busy_with or "nothing", "threads": ", ".join(holding)}
        log.error("did not end in time, and is ended", extra={"facts": facts})


def _dump_threads() -> None:
    """Say where every thread is.

    By way of memory: faulthandler holds the interpreter while it writes, so that a pipe which takes nothing would hold
    every thread, and the one that ends the process too.
    """
    with open(os.memfd_create("threads", os.MFD_CLOEXEC), "rb+") as dump:
        faulthandler.dump_traceback(dump.fileno(), all_threads=True)
        dump.seek(0)
        text = dump.read()
    while text:
        text = text[os.write(_STANDARD_ERROR, text) :]
