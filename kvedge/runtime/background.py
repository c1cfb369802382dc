"""Background work that outlives what nobody expected: the one way to start a long-lived thread.

Used by every part that works beside its callers. An exception that the work does not handle itself is logged with the
work's name and told to a listener (the node agent and the handler make an Event of the Node from it). The work begins
anew after a pause that grows; all other work goes on. Work that must not go on ends its thread on purpose and says why
in `failure()`. Starts threads; touches nothing else. `background_tasks` starts tasks of event loops: a launcher uses
this module and has no event loop.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from kvedge.runtime.heartbeat import ROUND_SECONDS, Heartbeat

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
# Work that went on for so long did something; the next exception is a new trouble.
_SETTLED_SECONDS: Final = 120.0
_LONGEST_TEXT: Final = 300
# Work that failed less often may have met something that passes.
_MANY_FAILURES: Final = 5

Listener = Callable[[str, str], None]
_listeners: list[Listener] = []


def on_trouble(listener: Listener) -> Callable[[], None]:
    """Have `listener(name, what)` called after each unexpected end of background work; returns what takes it back.

    It runs in the thread of that work: it may only note things. Where several roles share a process, the first listener
    is told, so that users hear of each thing once.
    """
    _listeners.append(listener)
    return lambda: _listeners.remove(listener) if listener in _listeners else None


@contextlib.contextmanager
def survive(name: str) -> Iterator[None]:
    """Tell an error of the block, and let the loop around it go on; for work whose loop has its own pauses."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - told
        tell_trouble(name, error)


def tell_trouble(name: str, error: BaseException) -> None:
    """Log an exception that nobody expected, and tell the listener; called while it is handled. Never raises."""
    what = _words(error)
    log.error("background work failed", exc_info=error, extra={"facts": {"work": name, "error": what}})
    for listener in _listeners[:1]:
        try:
            listener(name, what)
        except Exception:
            # The work goes on, although its trouble cannot be told.
            log.exception("nobody could be told of it", extra={"facts": {"work": name}})


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]


class Pauses:
    """How long failing work pauses; grows while it fails, and starts over once the work lasted."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failures = 0
        self._begun = monotonic()

    def begin(self) -> None:
        """The work begins."""
        self._begun = self._monotonic()

    def count_failure(self) -> float:
        """Seconds until it should begin again."""
        if self._monotonic() - self._begun >= _SETTLED_SECONDS:
            self._failures = 0
        self._failures += 1
        return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 20)))


class BackgroundThread:
    """A named daemon thread whose work begins anew when it raises, until the work returns or the thread is stopped."""

    def __init__(self, name: str, work: Callable[[], None], limit: float = ROUND_SECONDS) -> None:
        """`work` runs until it returns. It may use `heartbeat`, which is at rest until the work beats."""
        self.name = name
        self.heartbeat = Heartbeat(f"the thread {name}", limit)
        self._work = work
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._began = False
        # Until then it has not ended: whoever asks while it is about to begin would hear that it has.
        self._was_alive = False
        self._failures = 0
        self._error = ""

    def start(self) -> None:
        """Begin."""
        self._began = True
        self._thread.start()
        self._was_alive = True

    def stop(self) -> None:
        """Begin nothing anew; the work itself has to be told by its owner."""
        self._stopping.set()

    def join(self, timeout: float | None = None) -> None:
        """Stop, and wait until the work has ended; nothing happens for one that was not started, or from within."""
        self.stop()
        if self._began and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def is_alive(self) -> bool:
        """Whether its work goes on, or will."""
        return self._thread.is_alive()

    def failure(self) -> str | None:
        """Why the work is not done any more: it hangs, or has ended although nobody stopped it."""
        if not self._began or self._stopping.is_set():
            return None
        if self._was_alive and not self._thread.is_alive():
            return f"the thread {self.name} has ended"
        return self.heartbeat.failure()

    @property
    def trouble(self) -> str:
        """With what work that is to return fails again and again; empty for work that did not often."""
        return self._error if self._failures >= _MANY_FAILURES else ""

    def _run(self) -> None:
        pauses = Pauses()
        while not self._stopping.is_set():
            pauses.begin()
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - told, and begun anew
                self.heartbeat.rest()
                self._failures, self._error = self._failures + 1, _words(error)
                tell_trouble(self.name, error)
                self._stopping.wait(pauses.count_failure())
            else:
                self.heartbeat.rest()
                self._failures = 0
                return


def passing_thread(name: str, work: Callable[..., None], *args: Any) -> threading.Thread:
    """A started daemon thread for work that ends by itself: an error is told once, and nothing begins anew."""

    def run() -> None:
        with survive(name):
            work(*args)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
