"""What the guest has used, for the handler that asks.

Kept by `domain_run`; called by the gRPC server's threads. A QEMU that hangs keeps one of them, never a second one: who
asks meanwhile gets what the host knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kvedge.rpc.launcher_pb2 import DomainStats, GuestFilesystem, StatsPart

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.launcher.libvirt.stats_figures import DomainFigures, PartFigures

# More are no figures that somebody watches.
MOST_FILESYSTEMS: Final = 64


class GuestStats:
    """The figures of one guest; its method may be called from any thread."""

    def __init__(self, session: LibvirtSession, filesystems: Callable[[], Sequence[GuestFilesystem]]) -> None:
        """`filesystems` tells what the agent has said, and waits for nobody."""
        self._session = session
        self._filesystems = filesystems
        self._asking = threading.Lock()

    def read(self) -> DomainStats:
        """What the guest has used so far.

        Raises:
            LauncherError: when no guest runs, or libvirt does not tell.
        """
        if not self._asking.acquire(blocking=False):
            return build_stats(self._session.read_stats(ask_qemu=False), self._filesystems())
        try:
            return build_stats(self._session.read_stats(ask_qemu=True), self._filesystems())
        finally:
            self._asking.release()


def build_stats(found: DomainFigures, filesystems: Sequence[GuestFilesystem]) -> DomainStats:
    """The message for what libvirt and the agent say."""
    return DomainStats(
        complete=found.complete,
        figures=dict(found.figures),
        vcpus=_parts(found.vcpus),
        disks=_parts(found.disks),
        nics=_parts(found.nics),
        filesystems=map(_without_disks, filesystems[:MOST_FILESYSTEMS]),
    )


def _parts(found: Iterable[PartFigures]) -> Iterator[StatsPart]:
    return (StatsPart(name=part.name, state=part.state, figures=dict(part.figures)) for part in found)


def _without_disks(mount: GuestFilesystem) -> GuestFilesystem:
    return GuestFilesystem(
        disk_name=mount.disk_name,
        mount_point=mount.mount_point,
        type=mount.type,
        used_bytes=mount.used_bytes,
        total_bytes=mount.total_bytes,
    )
