"""Which pull comes next: some at a time, no namespace more than its share, the least served first.

Called by the agent's image pulls. Each pull that is under way has a thread; a pull that waits has none. The threads are
daemons, so the program ends without waiting for them.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Struct, field

from kvedge.runtime.background import passing_thread

log = logging.getLogger(__name__)

# A worker process and its child take some 50 MB, for a hostile image 350: so many fit into the service's memory.
AT_ONCE: Final = 2
# A registry that hardly answers leaves room for those of other namespaces.
PER_NAMESPACE: Final = 1


@dataclass(slots=True, eq=False)
class Job:
    """One pull: `run` does it, in a thread of its own; `cancel` ends it from another one, also before it begins."""

    namespace: str
    run: Callable[[], None]
    cancel: Callable[[], None]
    owner: str = ""


def next_job(waiting: Sequence[Job], running: Mapping[str, int]) -> Job | None:
    """The first of the namespace with the fewest pulls under way; None while there is no room for any."""
    if sum(running.values()) >= AT_ONCE:
        return None
    allowed = [job for job in waiting if running.get(job.namespace, 0) < PER_NAMESPACE]
    return min(allowed, key=lambda job: running.get(job.namespace, 0), default=None)


class PullQueue(Struct):
    """Runs jobs; safe for several threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: list[Job] = field(default_factory=list)
    _running: list[Job] = field(default_factory=list)
    _stopped: bool = False

    def add(self, job: Job) -> None:
        """Run it when it is its turn; never after :meth:`stop`."""
        with self._lock:
            if self._stopped:
                return
            self._waiting.append(job)
        self._begin()

    def cancel(self, owner: str) -> None:
        """End what runs for this owner, and forget what waits."""
        self._cancel(lambda job: job.owner == owner)

    def stop(self) -> None:
        """End everything, and begin nothing more."""
        with self._lock:
            self._stopped = True
        self._cancel(lambda job: True)

    def _cancel(self, chosen: Callable[[Job], bool]) -> None:
        with self._lock:
            self._waiting = [job for job in self._waiting if not chosen(job)]
            running = [job for job in self._running if chosen(job)]
        for job in running:
            job.cancel()

    def _begin(self) -> None:
        while True:
            with self._lock:
                job = next_job(self._waiting, Counter(item.namespace for item in self._running))
                if job is None or self._stopped:
                    return
                self._waiting.remove(job)
                self._running.append(job)
            try:
                passing_thread("image-pull", self._run, job)
            except RuntimeError:
                # No thread to be had: the next pull that is asked for, or ends, tries again.
                log.warning("no thread for a pull")
                with self._lock:
                    self._running.remove(job)
                    self._waiting.insert(0, job)
                return

    def _run(self, job: Job) -> None:
        try:
            job.run()
        except Exception:
            # The job tells of its own failures; this is for a fault in the telling. The next ones go on.
            log.exception("a pull failed in an unforeseen way")
        finally:
            with self._lock:
                self._running.remove(job)
            self._begin()
