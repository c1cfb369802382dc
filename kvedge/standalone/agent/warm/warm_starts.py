"""Launchers of one box as copies of one warm parent; what cannot be one is started apart.

Called by the Pod's steps where the setting `launcher-start` says `warm`. The parent is there from the third launcher
on. A parent that fails in any way costs a launcher nothing but the attempt: it is ended, the launcher starts apart, and
another parent is tried later. The container's lock and record keep a launcher from being started twice, as with the
starter.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from kvedge.runtime.program import program_command, program_directories
from kvedge.standalone.agent.container.container_spec import ContainerSpec
from kvedge.standalone.agent.container.container_start import (
    START_SECONDS,
    ContainerStarter,
    StarterGone,
    await_answer,
    raise_problem,
)
from kvedge.standalone.agent.warm.parent_process import ParentFailed, ParentProcess
from kvedge.standalone.agent.warm.warm_plan import PAYS_BESIDE, OwnProgram, may_be_warm, pause_after
from kvedge.standalone.agent.warm.warm_words import WARM_VERB

log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 3.0


class WarmStarts:
    """Starts launchers; safe for several threads."""

    def __init__(
        self,
        apart: ContainerStarter,
        command: Sequence[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`apart` starts what is not warm; `command` is the parent's."""
        self._apart = apart
        # The interpreter of a checkout, and libvirt with it, is below /usr.
        self._program = OwnProgram(program_command(), ["/usr", *program_directories()])
        self._command = list(command or [*program_command(), WARM_VERB])
        self._clock = clock
        # Held while a parent loads too: those who wait have it load once, instead of each loading as much itself.
        self._lock = threading.Lock()
        self._parent: ParentProcess | None = None
        self._failures = 0
        self._not_before = 0.0

    def start(self, spec: ContainerSpec, others: int) -> None:
        """Start a container beside so many `others` with launchers, as :meth:`ContainerStarter.start` does.

        Raises:
            ContainerStartError: with the reason, when nothing of it runs.
        """
        if not may_be_warm(spec, self._program) or not self._try(spec, others):
            self._apart.start(spec)

    def stop(self) -> None:
        """End the parent; launchers run on."""
        # A parent that hangs just now ends with this process.
        if not self._lock.acquire(timeout=_STOP_SECONDS):
            return
        try:
            parent, self._parent = self._parent, None
            if parent is not None:
                parent.end()
        finally:
            self._lock.release()

    def _try(self, spec: ContainerSpec, others: int) -> bool:
        """Whether the start was made warm; false when it has to be made apart."""
        try:
            problem = await_answer(spec, START_SECONDS, lambda: self._hand_over(spec, others))
        except _NoParent:
            return False
        except (ParentFailed, StarterGone) as error:
            # A child that it had forked before holds the container's lock.
            self._note_failure(str(error) or "the parent is gone")
            return False
        with self._lock:
            self._failures = 0
        raise_problem(problem)
        return True

    def _hand_over(self, spec: ContainerSpec, others: int) -> int:
        with self._lock:
            if self._parent is None:
                if others < PAYS_BESIDE or self._clock() < self._not_before:
                    raise _NoParent
                parent = ParentProcess(self._command)
                parent.await_loaded()
                self._parent = parent
            try:
                return self._parent.hand_over(spec)
            except ParentFailed:
                self._parent = None
                raise

    def _note_failure(self, why: str) -> None:
        with self._lock:
            if self._parent is not None and self._parent.has_ended:
                self._parent.end()
                self._parent = None
            self._failures += 1
            self._not_before = self._clock() + pause_after(self._failures)
        log.warning("the parent of warm launchers failed: one starts apart", extra={"facts": {"why": why}})


class _NoParent(Exception):
    """There is none now, and none is to be made."""
