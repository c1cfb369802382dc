"""Notices that passt has ended while its guest runs: from then on nobody serves that NIC.

Kept by `domain_run`, which looks now and then. QEMU before 8.0 cannot connect again once such a connection is lost, so
no other passt is started: the guest has to be restarted.
"""

from __future__ import annotations

import logging
from typing import Final

from kvedge.launcher.libvirt.domain_facts import DomainFacts
from kvedge.launcher.passt.passt_connection import is_connected
from kvedge.rpc.launcher_pb2 import SyncRequest

log = logging.getLogger(__name__)

# The connection of a QEMU that ends goes as well, and libvirt hears of that end a moment later.
_SURE_SECONDS: Final = 3.0


class PasstWatch:
    """The watch over the one passt of a guest, if it has one."""

    def __init__(self) -> None:
        self._nic = ""
        self._missed: float | None = None
        self._has_ended = False

    @property
    def is_unsettled(self) -> bool:
        """Whether to look again soon."""
        return self._missed is not None and not self._has_ended

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Learn which NIC is passt's."""
        self._nic = next((each.name for each in request.interfaces if each.HasField("passt")), "")

    def look(self, facts: DomainFacts | None, now: float) -> str:
        """The NIC that nobody serves any more; empty while it is served, or there is none."""
        if self._has_ended:
            return self._nic
        if not self._nic or facts is None or not facts.is_active or is_connected() is not False:
            self._missed = None
            return ""
        if self._missed is None:
            self._missed = now
        if now - self._missed < _SURE_SECONDS:
            return ""
        self._has_ended = True
        log.error("passt has ended", extra={"facts": {"nic": self._nic}})
        return self._nic
