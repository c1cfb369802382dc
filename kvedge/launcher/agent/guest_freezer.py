"""Freezing a guest's file systems by its agent, and thawing them whatever happens.

Kept by `guest_agent`; called by the run for requests, and by the agent's thread when the promise to thaw
(`guest_freeze`) falls due.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kvedge.launcher.agent.agent_line import ANSWER_SECONDS, AgentLine
from kvedge.launcher.agent.agent_schedule import Question
from kvedge.launcher.agent.guest_agent_message import BadAnswer
from kvedge.launcher.agent.guest_freeze import GuestFreeze, now
from kvedge.launcher.launcher_errors import LauncherError, Unanswered, Unreadable

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

# To freeze, a guest first writes out what it has in memory.
FREEZE_SECONDS: Final = 30


class GuestFreezer:
    """Freezes and thaws one guest; every method may be called from any thread."""

    def __init__(
        self, session: LibvirtSession, line: AgentLine, freeze: GuestFreeze, on_change: Callable[[], None]
    ) -> None:
        self._session = session
        self._line = line
        self._freeze = freeze
        self._on_change = on_change

    @property
    def is_on(self) -> bool:
        """Whether the guest may be frozen by us."""
        return self._freeze.is_on

    def freeze(self, seconds: int, check: Callable[[], None] = lambda: None) -> None:
        """Freeze the guest's file systems; they thaw after so many seconds whatever happens, 0 for when asked.

        `check()` is called between the promise and the freeze, and raises LauncherError when there is to be none: it
        asks those who themselves ask for `is_on`.

        A guest that has none which can be frozen (they are all in memory, or of a kind without it) stays thawed.

        Raises:
            LauncherError: when the agent does not do it; then they are thawed again.
            OSError: when the promise to thaw cannot be written down; then nothing was frozen.
        """
        with self._line.take_turn():
            # An agent that has frozen them refuses to do it again.
            frozen, was_on = self._is_frozen(), self._freeze.is_on
            self._freeze.begin(seconds, now())
            try:
                check()
            except LauncherError:
                if not was_on:
                    self._freeze.note_thaw()
                raise
            count = -1 if frozen else self._do_freeze()
            if count == 0:
                self._freeze.note_thaw()
                self._note("thawed")
                log.info("the guest has no file system to freeze")
                return
            with contextlib.suppress(OSError):
                # Counted from when they are frozen; the promise from before it stands in any case.
                self._freeze.begin(seconds, now())
            self._note("frozen")
        log.info("the guest's file systems are frozen", extra={"facts": {"seconds": seconds, "count": count}})

    def unfreeze(self) -> None:
        """Thaw them; if that fails, it is tried on until it succeeds.

        Raises:
            LauncherError: when the agent does not do it at once.
        """
        self._freeze.thaw_soon(now())
        with self._line.take_turn():
            try:
                self._thaw()
            except LauncherError:
                self._line.wake()
                raise

    def thaw_soon(self) -> None:
        """Have them thaw, if they are frozen, without waiting for it: a frozen guest cannot shut down."""
        self._freeze.thaw_soon(now())
        self._line.wake()

    def thaw_in_time(self) -> None:
        """Thaw them if that is due; the caller has the right to talk."""
        # A caller may have thawed them meanwhile.
        if self._freeze.wait(now()) > 0:
            return
        try:
            self._thaw()
        except LauncherError as error:
            log.warning("the guest did not thaw; trying again", extra={"facts": {"why": str(error)}})

    def _is_frozen(self) -> bool:
        try:
            return bool(self._line.hear(Question.FREEZE_STATUS.value) == "frozen")
        except (BadAnswer, Unreadable) as error:
            raise Unanswered(f"the guest agent's answer {error}") from error

    def _do_freeze(self) -> int:
        try:
            return self._session.freeze(FREEZE_SECONDS)
        except LauncherError:
            # It may have frozen some of them, or may yet do so.
            self.thaw_soon()
            raise

    def _thaw(self) -> None:
        """Thaw, with the right to talk."""
        try:
            count = self._session.thaw(ANSWER_SECONDS)
        except LauncherError:
            self._freeze.note_failure(now())
            raise
        self._freeze.note_thaw()
        log.info("the guest's file systems are thawed", extra={"facts": {"count": count}})
        self._note("thawed")

    def _note(self, status: str) -> None:
        with self._line.changed:
            self._line.state.note_freeze(status, now())
            self._line.changed.notify_all()
        self._on_change()
