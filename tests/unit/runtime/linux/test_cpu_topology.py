# Tests: kvedge/runtime/linux/cpu_topology.py, kvedge/launcher/node_cpus.py, kvedge/launcher/domain/host_cpus.py
"""How a host's CPUs are arranged, from a tree of files as in /sys; and those that a Pod has of them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from kvedge.launcher.domain.host_cpus import HostCell, HostCpus
from kvedge.launcher.node_cpus import find_allowed_cpus, read_host_cpus
from kvedge.runtime.linux.cpu_topology import find_cells, find_online_cpus, group_by_core


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def two_cells(root: Path) -> Path:
    """Two cells of two cores of two threads; the threads of a core are four numbers apart."""
    siblings = {f"cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
    cells = {
        "node/online": "0-1",
        "node/node0/cpulist": "0-1,4-5",
        "node/node0/distance": "10 21",
        "node/node1/cpulist": "2-3,6-7",
        "node/node1/distance": "21 10",
    }
    return write(root, {"cpu/online": "0-7", **siblings, **cells})


def test_cells_and_cores_are_found(tmp_path: Path) -> None:
    system = two_cells(tmp_path)
    assert find_online_cpus(system) == frozenset(range(8))
    assert list(find_cells(system)) == [
        (0, frozenset({0, 1, 4, 5}), {0: 10, 1: 21}),
        (1, frozenset({2, 3, 6, 7}), {0: 21, 1: 10}),
    ]
    assert group_by_core({5, 1, 2}, system) == ((1, 5), (2,))


def test_a_host_that_shows_nothing_has_cores_of_one_cpu(tmp_path: Path) -> None:
    assert find_online_cpus(tmp_path) == frozenset()
    assert list(find_cells(tmp_path)) == []
    assert group_by_core({3, 1}, tmp_path) == ((1,), (3,))


def test_a_pod_sees_its_own_cpus_alone(tmp_path: Path) -> None:
    found = read_host_cpus({1, 5, 2}, two_cells(tmp_path))
    assert found == HostCpus((HostCell(0, ((1, 5),), {0: 10, 1: 21}), HostCell(1, ((2,),), {0: 21, 1: 10})), 8)
    assert found.count == 3


def test_a_cell_without_cpus_of_the_pod_is_left_out(tmp_path: Path) -> None:
    assert [cell.number for cell in read_host_cpus({2, 6}, two_cells(tmp_path)).cells] == [1]


def test_without_cells_all_cpus_are_in_one(tmp_path: Path) -> None:
    assert read_host_cpus({1, 3}, tmp_path) == HostCpus((HostCell(0, ((1,), (3,)), {0: 10}),), 2)


def test_the_cpuset_is_found_by_a_process_that_was_moved_to_one_of_its_cpus() -> None:
    all_of_them, seen = find_allowed_cpus(), []

    def look_from_one() -> None:
        os.sched_setaffinity(0, {min(all_of_them)})
        seen.append(find_allowed_cpus())
        seen.append(frozenset(os.sched_getaffinity(0)))

    thread = threading.Thread(target=look_from_one)
    thread.start()
    thread.join()
    assert seen == [all_of_them, {min(all_of_them)}]
