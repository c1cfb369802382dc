"""Holds the guest still around the one moment of a copy, and lets it go on at once.

Made by `disk_copies`, for the thread that copies. A snapshot waits until the guest's agent has frozen it; a backup goes
on without, and tells.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kvedge.launcher.copies.copy_plan import (
    FREEZE_WAS_LIMITED,
    GUEST_AGENT,
    QUIESCE_FAILED,
    QUIESCE_SKIPPED,
    choose_quiesce,
)
from kvedge.launcher.launcher_errors import LauncherError, WrongState

if TYPE_CHECKING:
    from kvedge.launcher.agent.guest_freezer import GuestFreezer
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

# The guest thaws after so long by itself, whatever becomes of this process: libvirt begins the job in a fraction of it.
_FREEZE_SECONDS: Final = 30
# Between tries to freeze a guest whose agent does not do it.
_FREEZE_AGAIN_SECONDS: Final = 5.0
GUEST_ENDED: Final = "the guest ended while its disks were copied"


class Aborted(Exception):
    """Nobody wants the copy any more."""


class GuestHold:
    """The hold of one guest."""

    def __init__(
        self,
        session: LibvirtSession,
        freezer: GuestFreezer,
        aborting: threading.Event,
        note_freeze: Callable[[], None],
        tell_wait: Callable[[str], None],
    ) -> None:
        """`note_freeze()` is called before each freeze, `tell_wait()` with what it waits for, and "" at the end."""
        self._session = session
        self._freezer = freezer
        self._aborting = aborting
        self._note_freeze = note_freeze
        self._tell_wait = tell_wait

    def freeze(self) -> str:
        """Hold the guest still; how that was done. Tries on until the guest is frozen or nobody wants it any more.

        Raises:
            Aborted: when nobody wants it.
            WrongState: when the guest has ended.
        """
        while True:
            quiesce = self._choose()
            if quiesce != GUEST_AGENT:
                return quiesce
            self._note_freeze()
            try:
                self._freezer.freeze(_FREEZE_SECONDS, self._check_wanted)
            except LauncherError as error:
                log.warning("the guest is not frozen; trying again", extra={"facts": {"why": str(error)}})
                self._tell_wait(f"the guest's file systems cannot be frozen: {error}")
                if self._aborting.wait(_FREEZE_AGAIN_SECONDS):
                    raise Aborted from error
                continue
            self._tell_wait("")
            self._thaw_if_aborted()
            return quiesce

    def freeze_once(self, *, skip: bool) -> str:
        """Hold the guest still if its agent does it; how that was done. With `skip` it is not asked.

        Raises:
            Aborted: when nobody wants it.
            WrongState: when the guest has ended.
        """
        quiesce = self._choose()
        if skip:
            return QUIESCE_SKIPPED
        if quiesce != GUEST_AGENT:
            return quiesce
        self._note_freeze()
        try:
            self._freezer.freeze(_FREEZE_SECONDS, self._check_wanted)
        except LauncherError as error:
            log.warning("the guest is not frozen for its backup", extra={"facts": {"why": str(error)}})
            return QUIESCE_FAILED
        self._thaw_if_aborted()
        return quiesce

    def thaw(self) -> bool:
        """Let the guest go on; whether it was frozen until now."""
        was_frozen = self._freezer.is_on
        try:
            self._freezer.unfreeze()
        except LauncherError as error:
            # It is tried on by the freezer; on Windows it is how one is told that the guest has thawed by itself.
            log.warning("the guest did not thaw at once", extra={"facts": {"why": str(error)}})
            return was_frozen and FREEZE_WAS_LIMITED not in str(error)
        return was_frozen

    def _choose(self) -> str:
        facts = self._session.facts()
        if facts is None or not facts.is_active:
            raise WrongState(GUEST_ENDED)
        return choose_quiesce(facts)

    def _thaw_if_aborted(self) -> None:
        if self._aborting.is_set():
            self._freezer.thaw_soon()
            raise Aborted

    def _check_wanted(self) -> None:
        if self._aborting.is_set():
            raise WrongState("nobody wants the copy any more")
