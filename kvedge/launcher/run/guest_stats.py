"""What the guest has used, for the handler that asks.

Kept by `domain_run`; called by the gRPC server's threads. A QEMU that hangs keeps one of them, never a second one: who
asks meanwhile gets what the host knows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kvedge.rpc.launcher_pb2 import DomainStats, StatsPart

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.launcher.libvirt.stats_figures import DomainFigures, PartFigures


class GuestStats:
    """The figures of one guest; its method may be called from any thread."""

    def __init__(self, session: LibvirtSession) -> None:
        self._session = session
        self._asking = threading.Lock()

    def read(self) -> DomainStats:
        """What the guest has used so far.

        Raises:
            LauncherError: when no guest runs, or libvirt does not tell.
        """
        if not self._asking.acquire(blocking=False):
            return build_stats(self._session.read_stats(ask_qemu=False))
        try:
            return build_stats(self._session.read_stats(ask_qemu=True))
        finally:
            self._asking.release()


def build_stats(found: DomainFigures) -> DomainStats:
    """The message for what libvirt says."""
    return DomainStats(
        complete=found.complete,
        figures=dict(found.figures),
        vcpus=_parts(found.vcpus),
        disks=_parts(found.disks),
        nics=_parts(found.nics),
    )


def _parts(found: Iterable[PartFigures]) -> Iterator[StatsPart]:
    return (StatsPart(name=part.name, state=part.state, figures=dict(part.figures)) for part in found)
