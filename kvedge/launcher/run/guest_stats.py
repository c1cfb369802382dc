"""What the guest has used, for the handler that asks.

Kept by `domain_run`; called by the gRPC server's threads. A QEMU that hangs keeps one of them, never a second one: who
asks meanwhile gets what the host knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kvedge.launcher.run.dirty_sampling import DirtySampling
from kvedge.rpc.launcher_pb2 import DomainStats, GuestFilesystem, StatsPart

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_migration import MigrationFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.launcher.libvirt.stats_figures import DomainFigures, PartFigures

# More are no figures that somebody watches.
MOST_FILESYSTEMS: Final = 64


class GuestStats:
    """The figures of one guest; its method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        filesystems: Callable[[], Sequence[GuestFilesystem]],
        load: Callable[[], Mapping[str, int]],
        move: Callable[[], MigrationFacts | None],
        dirtied: DirtySampling,
    ) -> None:
        """`filesystems` and `load` tell what the agent has said, and wait for nobody; `move` asks QEMU how far the
        guest is on its way to another node, and is None while it stays.
        """
        self._session = session
        self._filesystems = filesystems
        self._load = load
        self._move = move
        self._dirtied = dirtied
        self._asking = threading.Lock()

    def read(self, *, dirty_rate: bool = False) -> DomainStats:
        """What the guest has used so far; with `dirty_rate` how fast it changes its memory, once that was measured.

        Raises:
            LauncherError: when no guest runs, or libvirt does not tell.
        """
        if not self._asking.acquire(blocking=False):
            return build_stats(self._session.read_stats(ask_qemu=False), self._filesystems(), self._load())
        try:
            found = self._session.read_stats(ask_qemu=True)
            return build_stats(found, self._filesystems(), {**self._load(), **self._ask_qemu(dirty_rate)})
        finally:
            self._asking.release()

    def _ask_qemu(self, dirty_rate: bool) -> dict[str, int]:
        move = self._move()
        if move is not None:
            # QEMU knows how fast memory changes while it sends it: it is not to measure that, too.
            return name_move(move)
        rate = self._dirtied.read() if dirty_rate else None
        return {} if rate is None else {"dirtyrate.bytes_per_second": rate}


def name_move(move: MigrationFacts) -> dict[str, int]:
    """How far a move is, by libvirt's names; rates are bytes a second."""
    figures = {
        "job.data_total": move.total,
        "job.data_processed": move.sent,
        "job.data_remaining": move.left,
        "job.memory_bps": move.memory_rate,
        "job.memory_dirty_bps": move.dirty_rate,
    }
    return {name: value for name, value in figures.items() if value is not None and value >= 0}


def build_stats(found: DomainFigures, filesystems: Sequence[GuestFilesystem], more: Mapping[str, int]) -> DomainStats:
    """The message for what libvirt and the agent say."""
    return DomainStats(
        complete=found.complete,
        figures={**found.figures, **more},
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
