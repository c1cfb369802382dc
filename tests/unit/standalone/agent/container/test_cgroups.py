"""What is written into a Pod's cgroup, and when: hierarchies that are directories with the kernel's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.standalone.agent.container.cgroups import CgroupLimits, Cgroups, Hierarchy

LIMITS = CgroupLimits(memory=1 << 30, cpu_request=100, cpu_limit=250)
UNIFIED = {"cpu.max": "max 100000", "cpu.weight": "100", "memory.max": "max", "pids.max": "max"}
CPU = {"cpu.cfs_quota_us": "-1", "cpu.shares": "1024"}


def _cgroups(root: Path, controllers: frozenset[str], files: dict[str, str]) -> tuple[Cgroups, Path]:
    folder = root / "kvedge/box/pod"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    for parent in (root, root / "kvedge", root / "kvedge/box"):
        (parent / "cgroup.controllers").write_text("cpu memory pids\n")
    return Cgroups("box", (Hierarchy(root, controllers),)), folder


@pytest.mark.parametrize(
    ("controllers", "files", "made", "limited"),
    [
        pytest.param(
            frozenset[str](),
            UNIFIED,
            {"cpu.max": "max 100000", "cpu.weight": "10", "memory.max": str(1 << 30), "pids.max": "4096"},
            {"cpu.max": "25000 100000"},
            id="version 2",
        ),
        pytest.param(
            frozenset({"cpu"}),
            CPU,
            {"cpu.cfs_quota_us": "-1", "cpu.shares": "102"},
            {"cpu.cfs_quota_us": "25000"},
            id="version 1",
        ),
    ],
)
def test_cpu_time_is_limited_by_a_call_of_its_own(
    tmp_path: Path, controllers: frozenset[str], files: dict[str, str], made: dict[str, str], limited: dict[str, str]
) -> None:
    cgroups, folder = _cgroups(tmp_path, controllers, files)
    assert cgroups.create("pod", LIMITS) == [str(folder / "cgroup.procs")]
    assert {name: (folder / name).read_text() for name in files} == made
    cgroups.limit_cpu("pod", LIMITS)
    cgroups.limit_cpu("pod", LIMITS)
    assert {name: (folder / name).read_text() for name in files} == {**made, **limited}
    assert cgroups.notes() == []


@pytest.mark.parametrize(
    ("controllers", "files", "resized"),
    [
        pytest.param(
            frozenset[str](),
            UNIFIED,
            {"cpu.max": "110000 100000", "cpu.weight": "20", "memory.max": str(2 << 30), "pids.max": "4096"},
            id="version 2",
        ),
        pytest.param(frozenset({"cpu"}), CPU, {"cpu.cfs_quota_us": "110000", "cpu.shares": "204"}, id="version 1"),
    ],
)
def test_a_pod_that_is_resized_has_other_limits(
    tmp_path: Path, controllers: frozenset[str], files: dict[str, str], resized: dict[str, str]
) -> None:
    cgroups, folder = _cgroups(tmp_path, controllers, files)
    cgroups.create("pod", LIMITS)
    larger = CgroupLimits(memory=2 << 30, cpu_request=200, cpu_limit=1100)
    assert [cgroups.resize("pod", larger) for _ in range(2)] == ["", ""]
    assert {name: (folder / name).read_text() for name in files} == resized


def test_a_limit_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    cgroups, folder = _cgroups(tmp_path, frozenset[str](), {})
    (folder / "memory.max").mkdir()
    assert cgroups.resize("pod", LIMITS) == f"{folder}: Is a directory"


def test_a_pod_without_a_limit_or_without_a_cgroup_is_left_alone(tmp_path: Path) -> None:
    cgroups, folder = _cgroups(tmp_path, frozenset({"cpu"}), CPU)
    cgroups.limit_cpu("pod", CgroupLimits(cpu_request=100))
    cgroups.limit_cpu("other", LIMITS)
    assert {name: (folder / name).read_text() for name in CPU} == CPU
    assert cgroups.notes() == []


def _cpuset_tree(root: Path) -> tuple[Cgroups, Path]:
    """Version 1's hierarchy of CPUs; the kernel fills a new group with empty files, which a directory cannot."""
    for folder in (root, root / "kvedge", root / "kvedge/box", root / "kvedge/box/pod"):
        folder.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            (folder / name).write_text("\n")
    (root / "cpuset.cpus").write_text("0-3\n")
    (root / "cpuset.mems").write_text("0\n")
    return Cgroups("box", (Hierarchy(root, frozenset({"cpuset"})),)), root / "kvedge/box/pod"


def test_a_pod_of_version_1_has_its_cpus_and_all_memory(tmp_path: Path) -> None:
    cgroups, folder = _cpuset_tree(tmp_path)
    cgroups.create("pod", CgroupLimits(cpus=frozenset({1, 2})))
    assert cgroups.notes() == []
    assert [(folder / name).read_text().strip() for name in ("cpuset.cpus", "cpuset.mems")] == ["1-2", "0"]
    assert (folder.parent / "cpuset.cpus").read_text() == "0-3"
    assert cgroups.cpus_of("pod") == {1, 2}


def test_a_pod_of_version_2_has_its_cpus(tmp_path: Path) -> None:
    cgroups, _ = _cgroups(tmp_path, frozenset(), {**UNIFIED, "cpuset.cpus": "\n"})
    assert cgroups.cpus_of("pod") == frozenset()
    cgroups.create("pod", CgroupLimits(cpus=frozenset({3})))
    assert cgroups.cpus_of("pod") == {3}


def test_a_running_pod_follows_another_pool_and_has_all_cpus_without_one(tmp_path: Path) -> None:
    cgroups, _ = _cpuset_tree(tmp_path)
    cgroups.create("pod", CgroupLimits(cpus=frozenset({1, 2})))
    cgroups.limit_cpu("pod", CgroupLimits(cpus=frozenset({0, 3})))
    assert cgroups.cpus_of("pod") == {0, 3}
    cgroups.limit_cpu("pod", CgroupLimits())
    assert cgroups.cpus_of("pod") == {0, 1, 2, 3}


def test_a_pod_that_is_older_than_the_pool_is_moved_to_its_cpus(tmp_path: Path) -> None:
    memory, cpus = tmp_path / "memory", tmp_path / "cpus"
    (memory / "kvedge/box/pod").mkdir(parents=True)
    (memory / "kvedge/box/pod/cgroup.procs").write_text("17\n")
    cpus.mkdir()
    _, folder = _cpuset_tree(cpus)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    of_memory = Hierarchy(memory, frozenset({"memory"}))
    cgroups = Cgroups("box", (of_memory, Hierarchy(cpus, frozenset({"cpuset"}))))
    cgroups.limit_cpu("pod", CgroupLimits(cpus=frozenset({2})))
    assert (folder / "cgroup.procs").read_text() == "17"
