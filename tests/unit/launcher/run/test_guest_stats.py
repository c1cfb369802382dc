"""Who asks for the figures of a guest whose QEMU hangs gets what the host knows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kvedge.launcher.launcher_errors import DomainMissing
from kvedge.launcher.libvirt.stats_figures import DomainFigures, PartFigures
from kvedge.launcher.run.dirty_sampling import DirtySampling
from kvedge.launcher.run.guest_stats import MOST_FILESYSTEMS, GuestStats, build_stats
from kvedge.rpc.launcher_pb2 import GuestDisk, GuestFilesystem
from tests.support.needs import NEEDS_LIBVIRT

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_migration import MigrationFacts

WHOLE = DomainFigures(
    complete=True,
    figures={"cpu.time": 1, "balloon.current": 2},
    vcpus=(PartFigures("0", {"time": 3}, "running"),),
    disks=(PartFigures("root", {"rd.bytes": 4}),),
    nics=(PartFigures("default", {"rx.bytes": 5}),),
)
MOUNTED = (
    GuestFilesystem(
        disk_name="vda1", mount_point="/", type="ext4", used_bytes=6, total_bytes=7, disks=[GuestDisk(serial="s")]
    ),
)


class PlayedSession:
    """libvirt with a QEMU that answers when it is let."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let = threading.Event()

    def read_stats(self, *, ask_qemu: bool) -> DomainFigures:
        if not ask_qemu:
            return DomainFigures(complete=False, figures={"cpu.time": 1})
        self.asked.set()
        assert self.let.wait(10)
        return WHOLE


class PlayedRate:
    """QEMU, which measures for a second."""

    def __init__(self) -> None:
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1

    def read(self) -> int | None:
        return 7 << 20 if self.begun else None


def stats_of(session: PlayedSession, move: MigrationFacts | None = None, rate: PlayedRate | None = None) -> GuestStats:
    measuring: Any = SimpleNamespace(dirty_rate=rate or PlayedRate())
    sampling = DirtySampling(measuring, lambda: 0.0, lambda work: work())
    return GuestStats(
        session,  # type: ignore[arg-type]  # all that it uses
        lambda: MOUNTED,
        lambda: {"load.1m": 250},
        lambda: move,
        sampling,
    )


def open_session() -> PlayedSession:
    session = PlayedSession()
    session.let.set()
    return session


def test_one_asks_qemu_and_others_do_not_wait_for_it() -> None:
    session = PlayedSession()
    stats = stats_of(session)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(stats.read)
        assert session.asked.wait(10)
        meanwhile = stats.read()
        session.let.set()
        assert first.result(10) == build_stats(WHOLE, MOUNTED, {"load.1m": 250})
    assert (meanwhile.complete, dict(meanwhile.figures)) == (False, {"cpu.time": 1, "load.1m": 250})
    # What the agent has said before is told whether QEMU answers or not.
    assert [mount.mount_point for mount in meanwhile.filesystems] == ["/"]
    assert stats.read().complete


def test_after_an_error_qemu_is_asked_again() -> None:
    class Failing(PlayedSession):
        def read_stats(self, *, ask_qemu: bool) -> DomainFigures:
            assert ask_qemu
            raise DomainMissing("no guest runs")

    stats = stats_of(Failing())
    for _ in range(2):
        with pytest.raises(DomainMissing):
            stats.read()


def test_memory_that_changes_is_measured_for_those_who_want_to_know_alone() -> None:
    rate = PlayedRate()
    stats = stats_of(open_session(), rate=rate)
    assert "dirtyrate.bytes_per_second" not in stats.read().figures
    assert rate.begun == 0
    assert "dirtyrate.bytes_per_second" not in stats.read(dirty_rate=True).figures
    assert stats.read(dirty_rate=True).figures["dirtyrate.bytes_per_second"] == 7 << 20
    assert rate.begun == 1


@NEEDS_LIBVIRT
def test_a_guest_that_moves_is_told_of_by_its_move_and_nothing_is_measured_beside_it() -> None:
    from kvedge.launcher.libvirt.domain_migration import MigrationFacts

    rate, move = PlayedRate(), MigrationFacts(total=10, sent=4, left=6, memory_rate=2, dirty_rate=3)
    figures = stats_of(open_session(), move, rate).read(dirty_rate=True).figures
    moved = {name: value for name, value in figures.items() if name.startswith("job.")}
    assert moved == {
        "job.data_total": 10,
        "job.data_processed": 4,
        "job.data_remaining": 6,
        "job.memory_bps": 2,
        "job.memory_dirty_bps": 3,
    }
    assert rate.begun == 0
    early = stats_of(open_session(), move._replace(dirty_rate=None)).read().figures
    assert "job.memory_dirty_bps" not in early


def test_the_message_has_all_parts() -> None:
    made = build_stats(WHOLE, MOUNTED, {})
    assert made.complete
    assert dict(made.figures) == {"cpu.time": 1, "balloon.current": 2}
    assert [(part.name, part.state, dict(part.figures)) for part in made.vcpus] == [("0", "running", {"time": 3})]
    assert [(part.name, dict(part.figures)) for part in made.disks] == [("root", {"rd.bytes": 4})]
    assert [(part.name, dict(part.figures)) for part in made.nics] == [("default", {"rx.bytes": 5})]
    expected = GuestFilesystem(disk_name="vda1", mount_point="/", type="ext4", used_bytes=6, total_bytes=7)
    assert list(made.filesystems) == [expected]


def test_a_guest_with_many_file_systems_has_the_first_of_them_told() -> None:
    mounts = [GuestFilesystem(mount_point=f"/{number}") for number in range(2 * MOST_FILESYSTEMS)]
    made = build_stats(WHOLE, mounts, {}).filesystems
    assert [mount.mount_point for mount in made] == [f"/{number}" for number in range(MOST_FILESYSTEMS)]
