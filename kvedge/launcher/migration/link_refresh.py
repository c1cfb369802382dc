"""Has a guest that came from another node ask for its addresses anew: its link goes down for a moment, then up again.

Kept by `domain_run`: `follow` is called by each Sync, `look` by the watch. For interfaces of network binding plugins
whose `migration.method` is `link-refresh`, and for those that came to another network. Done once, whatever becomes of
the launcher; a link that stays down is put up by `nic_keeper`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kvedge.launcher.launcher_errors import BadRequest, LauncherError
from kvedge.launcher.libvirt.domain_facts import DOWN_SECONDS, Life
from kvedge.resources.names import SWITCHED_NETWORKS
from kvedge.rpc.launcher_pb2 import SyncRequest

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.launcher.migration.migration_record import MigrationRecord

log = logging.getLogger(__name__)


def find_coming_nics(document: bytes) -> frozenset[str]:
    """The NICs of a VMI that come to other networks than they are on, of its JSON.

    Raises:
        BadRequest: when the document is no VMI.
    """
    try:
        marks = (json.loads(document or b"{}").get("metadata") or {}).get("annotations") or {}
        switched = json.loads(marks.get(SWITCHED_NETWORKS) or "{}").items()
    except (ValueError, AttributeError, TypeError) as error:
        raise BadRequest("the VMI", f"cannot be read: {error!r}") from error
    return frozenset(str(name) for name, where in switched if not where)


class LinkRefresh:
    """The links of one guest; every method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        record: MigrationRecord,
        on_wish: Callable[[], None],
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`on_wish()` asks for a look."""
        self._session = session
        self._record = record
        self._on_wish = on_wish
        self._wait = wait
        self._owes = record.owes_refresh
        self._switched = record.switched_nics() if self._owes else frozenset()
        self._names: frozenset[str] = frozenset()

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Learn which interfaces are to be refreshed."""
        if self._owes:
            asked = (entry.name for entry in request.interfaces if entry.refresh_link)
            self._names = self._switched.union(asked)
            if self._names:
                self._on_wish()

    def look(self, facts: DomainFacts | None) -> None:
        """Refresh the links that are up, once the guest runs: one that stands still would see nothing of it."""
        if not (self._owes and self._names) or facts is None or facts.life not in (Life.RUNNING, Life.BLOCKED):
            return
        due = [nic.name for nic in facts.nics if nic.name in self._names and not nic.is_down and not nic.is_function]
        gone_down = [name for name in due if self._set(name, down=True)]
        if gone_down:
            self._wait(DOWN_SECONDS)
        for name in gone_down:
            self._set(name, down=False)
        self._owes = False
        try:
            self._record.keep_refreshed()
        except OSError as error:
            # A launcher that is started again does it once more.
            log.warning("that links were refreshed was not kept", extra={"facts": {"error": error.strerror}})

    def _set(self, name: str, *, down: bool) -> bool:
        try:
            self._session.set_link(name, down=down)
        except LauncherError as error:
            log.warning("a link was not refreshed", extra={"facts": {"nic": name, "why": str(error)}})
            return False
        log.info("link refreshed", extra={"facts": {"nic": name, "link": "down" if down else "up"}})
        return True
