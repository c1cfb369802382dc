"""Who asks for the figures of a guest whose QEMU hangs gets what the host knows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvedge.launcher.launcher_errors import DomainMissing
from kvedge.launcher.libvirt.stats_figures import DomainFigures, PartFigures
from kvedge.launcher.run.guest_stats import MOST_FILESYSTEMS, GuestStats, build_stats
from kvedge.rpc.launcher_pb2 import GuestDisk, GuestFilesystem

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


def test_one_asks_qemu_and_others_do_not_wait_for_it() -> None:
    session = PlayedSession()
    stats = GuestStats(session, lambda: MOUNTED)  # type: ignore[arg-type]  # all that it uses
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(stats.read)
        assert session.asked.wait(10)
        meanwhile = stats.read()
        session.let.set()
        assert first.result(10) == build_stats(WHOLE, MOUNTED)
    assert (meanwhile.complete, dict(meanwhile.figures)) == (False, {"cpu.time": 1})
    # What the agent has said before is told whether QEMU answers or not.
    assert [mount.mount_point for mount in meanwhile.filesystems] == ["/"]
    assert stats.read().complete


def test_after_an_error_qemu_is_asked_again() -> None:
    class Failing(PlayedSession):
        def read_stats(self, *, ask_qemu: bool) -> DomainFigures:
            assert ask_qemu
            raise DomainMissing("no guest runs")

    stats = GuestStats(Failing(), lambda: ())  # type: ignore[arg-type]  # all that it uses
    for _ in range(2):
        with pytest.raises(DomainMissing):
            stats.read()


def test_the_message_has_all_parts() -> None:
    made = build_stats(WHOLE, MOUNTED)
    assert made.complete
    assert dict(made.figures) == {"cpu.time": 1, "balloon.current": 2}
    assert [(part.name, part.state, dict(part.figures)) for part in made.vcpus] == [("0", "running", {"time": 3})]
    assert [(part.name, dict(part.figures)) for part in made.disks] == [("root", {"rd.bytes": 4})]
    assert [(part.name, dict(part.figures)) for part in made.nics] == [("default", {"rx.bytes": 5})]
    expected = GuestFilesystem(disk_name="vda1", mount_point="/", type="ext4", used_bytes=6, total_bytes=7)
    assert list(made.filesystems) == [expected]


def test_a_guest_with_many_file_systems_has_the_first_of_them_told() -> None:
    mounts = [GuestFilesystem(mount_point=f"/{number}") for number in range(2 * MOST_FILESYSTEMS)]
    made = build_stats(WHOLE, mounts).filesystems
    assert [mount.mount_point for mount in made] == [f"/{number}" for number in range(MOST_FILESYSTEMS)]
