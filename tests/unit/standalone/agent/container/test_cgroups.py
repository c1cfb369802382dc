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


def test_a_pod_without_a_limit_or_without_a_cgroup_is_left_alone(tmp_path: Path) -> None:
    cgroups, folder = _cgroups(tmp_path, frozenset({"cpu"}), CPU)
    cgroups.limit_cpu("pod", CgroupLimits(cpu_request=100))
    cgroups.limit_cpu("other", LIMITS)
    assert {name: (folder / name).read_text() for name in CPU} == CPU
    assert cgroups.notes() == []
