"""Which Pods a process is in, as the kernel writes it of every kind of cgroup that a Pod has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.runtime.process_facts import is_kernel_thread, pods_of, process_status

POD = "33333333-3333-3333-3333-333333333333"
OTHER = "44444444-4444-4444-4444-444444444444"
ESCAPED = POD.replace("-", "_")


@pytest.mark.parametrize(
    ("text", "pods"),
    [
        pytest.param(f"0::/kubepods/burstable/pod{POD}/0123\n", {POD}, id="a kubelet's, cgroupfs"),
        pytest.param(f"4:memory:/kubepods/pod{POD}\n1:name=systemd:/\n", {POD}, id="a kubelet's, version 1"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{ESCAPED}.slice/crio-1.scope\n",
            {POD},
            id="a kubelet's, systemd",
        ),
        pytest.param(f"0::/kvedge.slice/kvedge-kv0.slice/kvedge-pod-{POD}.scope\n", {POD}, id="one box, systemd"),
        pytest.param(f"4:memory:/docker/1/kvedge/kv0/{POD}\n", {POD}, id="one box, cgroupfs"),
        pytest.param(f"0::/kvedge/kv0/{POD} (deleted)\n", {POD}, id="one that is gone"),
        pytest.param(f"0::/kubepods/pod{OTHER}/1/kubepods/pod{POD}/2\n", {POD, OTHER}, id="a node in a Pod"),
        pytest.param("0::/system.slice/kvedge.service\n", set(), id="none"),
        pytest.param(f"0::/system.slice/podman-{POD}.scope\n", set(), id="another's name"),
        pytest.param(f"0::/pod{POD}0/1\n", set(), id="no UUID"),
    ],
)
def test_pods_are_known_by_the_cgroups_that_kubelets_and_the_node_agent_make(
    tmp_path: Path, text: str, pods: set[str]
) -> None:
    (tmp_path / "cgroup").write_text(text)
    assert pods_of(tmp_path) == pods


def test_the_kernel_s_threads_are_told_from_others_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("9 (vhost-) 8) S 2 0 0 0 -1 2129984 0\n")
    assert is_kernel_thread(tmp_path)
    assert not is_kernel_thread(Path("/proc/self"))


def test_a_status_is_read_by_its_names() -> None:
    status = process_status(Path("/proc/self"))
    assert status["Pid"] == str(os.getpid())
    assert status["Uid"].split()[0] == str(os.getuid())
