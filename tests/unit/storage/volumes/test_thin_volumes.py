"""What is ours in a recorded group, and how much room its pool has."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.storage.volumes.lvm_report import parse_volumes
from kvedge.storage.volumes.thin_volumes import PoolSeen, lv_size, pool_space, see_pool

MIB = 1 << 20
DISK = "0f5c0000-0000-4000-8000-000000000001"
FOREIGN = "kvedge-0f5c0000-0000-4000-8000-000000000005"


def recorded() -> PoolSeen:
    text = (Path(__file__).parent / "lvm_reports/volumes.json").read_text()
    seen = see_pool(parse_volumes(text), "thin")
    assert seen is not None
    return seen


def test_ours_is_what_bears_the_mark_and_is_whole() -> None:
    seen = recorded()
    assert seen.staged == {"kvedge-new-cut-off"}
    assert FOREIGN in seen.names
    assert FOREIGN.removeprefix("kvedge-") not in seen.volumes
    disk, snapshot = seen.volumes[DISK], seen.volumes[f"snapshot-{DISK}"]
    assert (disk.size, disk.block, disk.used) == (32 * MIB, True, int(0.0039 * 32 * MIB))
    assert (snapshot.size, snapshot.taken, snapshot.used) == (32 * MIB, 1795884527301429985, 130862)
    assert seen.volumes["0f5c0000-0000-4000-8000-000000000002"].block is False


def test_there_is_no_pool_of_another_name() -> None:
    text = (Path(__file__).parent / "lvm_reports/volumes.json").read_text()
    assert see_pool(parse_volumes(text), DISK) is None


def test_the_room_of_a_pool_is_that_of_its_data_and_of_its_metadata() -> None:
    space = pool_space(recorded())
    assert (space.total, space.index_percent, space.snapshots) == (200 * MIB, 11, 130862 + 916035)
    assert space.total - space.free == int(0.0375 * 200 * MIB)
    assert 0 < space.held <= space.total - space.free


@pytest.mark.parametrize(
    ("size", "block", "least"),
    [(64 * MIB, True, 64 * MIB), (64 * MIB, False, 84 * MIB), (1000, True, 1024), (16 << 30, False, (17 << 30))],
    ids=["a device", "a file system", "whole sectors", "a large file system"],
)
def test_a_file_system_gets_room_for_itself(size: int, block: bool, least: int) -> None:
    made = lv_size(size, block=block)
    assert made >= least
    assert made % 512 == 0
    assert not block or made < size + 512
