"""A guest that was released and may not run yet: its launcher lets it run, again and again until it does.

Kept by `domain_run`, of a launcher that finds its guest released by the one before. That one may have been killed
before it let the guest run, or QEMU refused: an image's lock on NFS is free only some time after the source is off.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life
from kvedge.launcher.migration.migration_record import MigrationRecord

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


class ReleasedGuest:
    """The guest that came to one Pod, if one did; used by one thread at a time."""

    def __init__(self, session: LibvirtSession, store: MigrationRecord) -> None:
        self._session = session
        self._store = store
        self._why = ""
        # Whether the guest is still to be let run.
        self.is_due = store.incoming().goes_on

    def go_on(self, facts: DomainFacts | None, *, held: bool) -> None:
        """Let the guest run, unless it does, has ended, or a user has paused it meanwhile: `held`."""
        if not self.is_due:
            return
        if facts is not None and facts.life is Life.PAUSED and not held:
            try:
                self._session.unpause()
            except LauncherError as error:
                self._note(str(error))
                return
            log.info("the guest was released, and goes on now")
        self.is_due = False
        try:
            self._store.keep_incoming(self._store.incoming()._replace(goes_on=False))
        except OSError as error:
            # The next launcher would let it run once more, which changes nothing of a guest that runs.
            log.warning("it is not written down that the guest runs", extra={"facts": {"why": str(error)}})

    def _note(self, why: str) -> None:
        if why != self._why:
            log.warning("the guest does not run yet; trying again", extra={"facts": {"why": why}})
        self._why = why
