"""Which Pod of one box has which CPUs for itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.types.core import Container, Pod, PodSpec, ResourceRequirements
from kvedge.standalone.agent.pod.place.cpu_pool import STATE_FILE, CpuError, CpuPool, choose_cpus, exclusive_cpus

ALONE = {"kubevirt.io/cpumanager": "true"}
# Two cells of two cores of two threads.
CELLS = (((0, 4), (1, 5)), ((2, 6), (3, 7)))


def a_pod(requests: dict[str, Any], limits: dict[str, Any], selector: dict[str, str]) -> Pod:
    containers = [Container(name="compute", resources=ResourceRequirements(requests=requests, limits=limits))]
    return Pod(spec=PodSpec(containers=containers, node_selector=selector))


def a_pool(root: Path, *cpus: int, online: str = "0-7") -> CpuPool:
    system = root / "system"
    files = {
        "cpu/online": online,
        "node/online": "0-1",
        "node/node0/cpulist": "0-1,4-5",
        "node/node1/cpulist": "2-3,6-7",
        **{f"cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)},
    }
    for name, text in files.items():
        (system / name).parent.mkdir(parents=True, exist_ok=True)
        (system / name).write_text(text)
    return CpuPool(cpus, root, system)


def read_state(root: Path) -> Any:
    return json.loads((root / "cpu_manager_state").read_text())


@pytest.mark.parametrize(
    ("requests", "limits", "selector", "count"),
    [
        ({"cpu": "2"}, {"cpu": "2"}, ALONE, 2),
        ({"cpu": "2000m"}, {"cpu": 2}, ALONE, 2),
        ({}, {"cpu": "3"}, ALONE, 3),
        ({"cpu": "2"}, {"cpu": "2"}, {}, 0),
        ({"cpu": "1"}, {"cpu": "2"}, ALONE, 0),
        ({"cpu": "1500m"}, {"cpu": "1500m"}, ALONE, 0),
        ({"cpu": "2"}, {}, ALONE, 0),
    ],
    ids=["whole", "the same amount", "a limit alone", "of any node", "may have more", "a part of one", "no limit"],
)
def test_a_pod_that_is_guaranteed_whole_cpus_has_them_for_itself(
    requests: dict[str, Any], limits: dict[str, Any], selector: dict[str, str], count: int
) -> None:
    assert exclusive_cpus(a_pod(requests, limits, selector)) == count


@pytest.mark.parametrize(
    ("free", "count", "chosen"),
    [
        ({0, 1, 2, 3, 4, 5, 6, 7}, 2, [0, 4]),
        ({1, 2, 3, 4, 5, 6, 7}, 2, [1, 5]),
        ({1, 2, 3, 4, 5, 6, 7}, 3, [1, 4, 5]),
        ({1, 2, 3, 4, 5, 6, 7}, 1, [4]),
        ({0, 2, 3, 4, 6, 7}, 4, [2, 3, 6, 7]),
        ({0, 1, 2, 3, 4, 5, 6, 7}, 6, [0, 1, 2, 4, 5, 6]),
        ({0, 5}, 1, [0]),
        ({0, 5}, 3, [0, 5]),
    ],
    ids=[
        "a whole core",
        "not the broken one",
        "a whole and a broken one",
        "a broken one before a whole one",
        "a cell that has them all",
        "several cells",
        "one of two",
        "all that there are",
    ],
)
def test_whole_cores_of_one_cell_come_first(free: set[int], count: int, chosen: list[int]) -> None:
    assert choose_cpus(free, CELLS, count) == chosen


def test_a_pod_keeps_its_cpus_until_it_is_gone(tmp_path: Path) -> None:
    pool = a_pool(tmp_path, 2, 3, 6, 7)
    first = pool.reserve("a", 2)
    assert (first, pool.reserve("a", 2), pool.reserve("b", 2)) == ([2, 6], [2, 6], [3, 7])
    with pytest.raises(CpuError, match=r"not enough cpus available to satisfy request: 1 .* 0 of dedicated-cpus are"):
        pool.reserve("c", 1)
    pool.release("a")
    pool.release("a")
    assert pool.reserve("c", 1) == [2]


def test_all_others_are_kept_off_the_pool(tmp_path: Path) -> None:
    pool = a_pool(tmp_path, 2, 6)
    pool.reserve("a", 1)
    assert (pool.cpuset_of("a"), pool.cpuset_of("b")) == ({2}, {0, 1, 3, 4, 5, 7})


def test_without_a_pool_nobody_is_kept_off_anything(tmp_path: Path) -> None:
    pool = a_pool(tmp_path)
    assert pool.reserve("a", 0) == []
    assert pool.cpuset_of("a") == frozenset()
    pool.tell()
    assert read_state(tmp_path) == {"policyName": "none", "defaultCpuSet": "", "entries": {}}


def test_cpus_are_given_where_the_file_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / STATE_FILE).mkdir()
    pool = a_pool(tmp_path, 2, 6)
    pool.tell()
    assert str(tmp_path / STATE_FILE) in str([record.__dict__["facts"] for record in caplog.records])
    assert pool.reserve("a", 1) == [2]


def test_what_an_earlier_agent_gave_away_stays_away(tmp_path: Path) -> None:
    pool = a_pool(tmp_path, 2, 6)
    pool.adopt("shared", [])
    # Of a pool that was larger.
    pool.adopt("a", [2, 3])
    assert pool.reserve("b", 1) == [6]
    assert pool.cpuset_of("shared") == {0, 1, 4, 5, 7}
    with pytest.raises(CpuError):
        pool.reserve("c", 1)


def test_the_file_tells_of_the_pool_as_a_kubelets_does(tmp_path: Path) -> None:
    pool = a_pool(tmp_path, 2, 6)
    pool.reserve("a", 2)
    told = read_state(tmp_path)
    assert told == {"policyName": "static", "defaultCpuSet": "0-1,3-5,7", "entries": {"a": {"pod": "2,6"}}}


@pytest.mark.parametrize(
    ("cpus", "words"),
    [
        ((2,), ""),
        ((), ""),
        ((2, 9), "dedicated-cpus: this host has no CPU 9; it has 0-7"),
        (tuple(range(8)), "dedicated-cpus: all CPUs of this host are named; leave at least one for everything else"),
    ],
)
def test_a_pool_that_cannot_be_is_told(tmp_path: Path, cpus: tuple[int, ...], words: str) -> None:
    assert a_pool(tmp_path, *cpus).check() == words
