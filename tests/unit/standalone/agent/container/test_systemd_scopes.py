"""Limits as systemd has them, and names that systemd does not misread."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kvedge.standalone.agent.container.cgroups import CgroupLimits, Hierarchy
from kvedge.standalone.agent.container.systemd_scopes import SystemdScopes, cpu_properties, scope_properties


@pytest.mark.parametrize(
    ("limits", "properties"),
    [
        pytest.param(CgroupLimits(), {"TasksMax=4096"}, id="no limits"),
        pytest.param(CgroupLimits(memory=1 << 30), {"TasksMax=4096", "MemoryMax=1073741824"}, id="memory in bytes"),
        pytest.param(CgroupLimits(cpu_request=500), {"TasksMax=4096", "CPUWeight=50"}, id="half a CPU's share"),
        pytest.param(CgroupLimits(cpu_request=1), {"TasksMax=4096", "CPUWeight=1"}, id="a share is never nothing"),
        pytest.param(CgroupLimits(cpus=frozenset({2, 3})), {"TasksMax=4096", "AllowedCPUs=2-3"}, id="CPUs"),
        pytest.param(CgroupLimits(cpu_limit=1500), {"TasksMax=4096"}, id="CPU time has none until a container runs"),
    ],
)
def test_limits_become_properties(limits: CgroupLimits, properties: set[str]) -> None:
    assert set(scope_properties(limits)) == properties


@pytest.mark.parametrize(
    ("limits", "properties"),
    [
        pytest.param(CgroupLimits(cpu_request=500), [], id="no limit"),
        pytest.param(CgroupLimits(cpu_limit=1500), ["CPUQuota=150%"], id="one CPU and a half"),
        pytest.param(CgroupLimits(cpus=frozenset({2})), ["AllowedCPUs=2"], id="CPUs"),
        pytest.param(CgroupLimits(cpu_limit=125), ["CPUQuota=12.5%"], id="an eighth"),
    ],
)
def test_the_limit_of_cpu_time_becomes_a_property(limits: CgroupLimits, properties: list[str]) -> None:
    assert cpu_properties(limits) == properties


def test_a_dash_in_the_instance_does_not_make_another_level_of_slices(tmp_path: Path) -> None:
    scopes = SystemdScopes("kve-12ab34", (Hierarchy(tmp_path, frozenset()),))
    assert scopes.slice == "kvedge-kve_12ab34.slice"


def test_pods_of_scopes_and_of_plain_cgroups_are_both_found(tmp_path: Path) -> None:
    scopes = SystemdScopes("kvedge0", (Hierarchy(tmp_path, frozenset()),))
    scope = tmp_path / "kvedge.slice" / "kvedge-kvedge0.slice" / "kvedge-pod-a.scope"
    plain = tmp_path / "kvedge" / "kvedge0" / "b"
    for folder, pids in ((scope, "7\n"), (plain, "8\n9\n")):
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(pids)
    assert scopes.pods() == {"a", "b"}
    assert (scopes.processes("a"), scopes.processes("b")) == ({7}, {8, 9})
    with pytest.raises(OSError, match="processes are left"):
        scopes.remove("a")


def test_a_limit_that_systemd_does_not_take_is_told_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = SystemdScopes("kvedge0", (Hierarchy(tmp_path, frozenset()),))
    (tmp_path / "kvedge.slice" / "kvedge-kvedge0.slice" / "kvedge-pod-a.scope").mkdir(parents=True)
    said = [
        subprocess.CalledProcessError(1, "systemctl", stderr=b"PID 1 is busy\n"),
        subprocess.TimeoutExpired("s", 10),
    ]
    asked: list[list[str]] = []

    def run(command: list[str], **options: object) -> None:
        asked.append(command)
        if said:
            raise said.pop(0)

    monkeypatch.setattr("subprocess.run", run)
    limits = CgroupLimits(cpu_limit=100)
    assert not scopes.limit_cpu("a", limits)
    assert "PID 1 is busy" in scopes.notes()[0]
    assert not scopes.limit_cpu("a", limits)
    assert scopes.limit_cpu("a", limits)
    assert scopes.notes() == []
    assert asked == [["systemctl", "set-property", "--runtime", "kvedge-pod-a.scope", "CPUQuota=10%"]] * 3


def test_a_pod_that_is_resized_has_all_of_its_limits_set_by_systemd_and_a_refusal_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = SystemdScopes("kvedge0", (Hierarchy(tmp_path, frozenset()),))
    (tmp_path / "kvedge.slice" / "kvedge-kvedge0.slice" / "kvedge-pod-a.scope").mkdir(parents=True)
    said: list[Exception] = [subprocess.CalledProcessError(1, "systemctl", stderr=b"PID 1 is busy\n"), OSError("gone")]
    asked: list[list[str]] = []

    def run(command: list[str], **options: object) -> None:
        asked.append(command)
        if said:
            raise said.pop(0)

    monkeypatch.setattr("subprocess.run", run)
    limits = CgroupLimits(memory=2 << 30, cpu_request=200, cpu_limit=1100)
    assert scopes.resize("a", limits) == "PID 1 is busy"
    assert scopes.resize("a", limits) == "gone"
    assert scopes.resize("a", limits) == ""
    properties = ["TasksMax=4096", "MemoryMax=2147483648", "CPUWeight=20", "CPUQuota=110%"]
    assert asked == [["systemctl", "set-property", "--runtime", "kvedge-pod-a.scope", *properties]] * 3


def test_a_pod_from_before_systemd_is_resized_where_its_cgroup_is(tmp_path: Path) -> None:
    scopes = SystemdScopes("kvedge0", (Hierarchy(tmp_path, frozenset()),))
    plain = tmp_path / "kvedge" / "kvedge0" / "b"
    plain.mkdir(parents=True)
    (plain / "memory.max").write_text("1\n")
    assert scopes.resize("b", CgroupLimits(memory=2)) == ""
    assert (plain / "memory.max").read_text() == "2"
