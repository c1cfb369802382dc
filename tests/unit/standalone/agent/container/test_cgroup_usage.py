"""What cgroups of both versions tell of their processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.standalone.agent.container.cgroup_usage import CgroupUsage, read_usage
from kvedge.standalone.agent.container.cgroups import Cgroups, Hierarchy
from kvedge.standalone.agent.container.systemd_scopes import SystemdScopes

V2 = {"cpu.stat": "usage_usec 1500\nuser_usec 1000\n", "memory.current": "4096\n", "memory.stat": "inactive_file 96\n"}
V1_CPU = {"cpuacct.usage": "1500000\n"}
V1_MEMORY = {"memory.usage_in_bytes": "4096\n", "memory.stat": "inactive_file 1\ntotal_inactive_file 96\n"}


def folder(path: Path, files: dict[str, str]) -> Path:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_version_2_tells_all_in_one_place(tmp_path: Path) -> None:
    assert read_usage([folder(tmp_path / "a", V2)]) == CgroupUsage(1_500_000, 4000)


def test_version_1_tells_it_in_two(tmp_path: Path) -> None:
    folders = [folder(tmp_path / "pids", {}), folder(tmp_path / "c", V1_CPU), folder(tmp_path / "m", V1_MEMORY)]
    assert read_usage(folders) == CgroupUsage(1_500_000, 4000)


@pytest.mark.parametrize("files", [V1_CPU, V1_MEMORY, {}, V2 | {"memory.current": "max\n"}, V2 | {"cpu.stat": "a b"}])
def test_half_of_it_is_nothing(tmp_path: Path, files: dict[str, str]) -> None:
    assert read_usage([folder(tmp_path / "a", files)]) is None


def test_caches_do_not_make_it_less_than_nothing(tmp_path: Path) -> None:
    files = V2 | {"memory.stat": "inactive_file 5000\n"}
    assert read_usage([folder(tmp_path / "a", files)]) == CgroupUsage(1_500_000, 0)


def test_a_pod_is_found_by_its_cgroups(tmp_path: Path) -> None:
    cpu, memory = Hierarchy(tmp_path / "c", frozenset({"cpuacct"})), Hierarchy(tmp_path / "m", frozenset({"memory"}))
    folder(tmp_path / "c/kvedge/box/pod", V1_CPU)
    folder(tmp_path / "m/kvedge/box/pod", V1_MEMORY)
    cgroups = Cgroups("box", (cpu, memory))
    assert cgroups.usage("pod") == CgroupUsage(1_500_000, 4000)
    assert cgroups.usage("other") is None


def test_a_pod_is_found_by_its_scope_or_by_a_cgroup_of_before(tmp_path: Path) -> None:
    scopes = SystemdScopes("box", (Hierarchy(tmp_path, frozenset()),))
    folder(tmp_path / "kvedge.slice/kvedge-box.slice/kvedge-pod-one.scope", V2)
    folder(tmp_path / "kvedge/box/two", V2 | {"memory.current": "200"})
    assert scopes.usage("one") == CgroupUsage(1_500_000, 4000)
    assert scopes.usage("two") == CgroupUsage(1_500_000, 104)
