"""What is taken for a launcher that still runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.handler.launcher_remains import runs_here

VMI = "22222222-2222-2222-2222-222222222222"
POD = "33333333-3333-3333-3333-333333333333"
LAUNCHER = "107\t107\t107\t107"
OF_POD = f"0::/kubepods/burstable/pod{POD}/compute"
OF_POD_BY_SYSTEMD = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-1.scope"


def a_process(proc: Path, pid: int, *command: str, uid: str = LAUNCHER, state: str = "S", group: str = "0::/") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"".join(part.encode() + b"\0" for part in command))
    (folder / "status").write_text(f"Name:\tx\nState:\t{state} (some)\nUid:\t{uid}\n")
    (folder / "cgroup").write_text(f"{group}\n")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("python3", "-I", "-c", "x", "kvedge", "launcher", "--uid", VMI), id="its monitor"),
        pytest.param(
            ("qemu-system-x86_64", "-chardev", f"path=/var/run/kubevirt-private/{VMI}/virt-serial0"), id="QEMU"
        ),
    ],
)
def test_what_names_the_vmi_and_is_the_launchers_users_runs(tmp_path: Path, command: tuple[str, ...]) -> None:
    a_process(tmp_path, 1, "init", uid="0")
    a_process(tmp_path, 7, *command)
    (tmp_path / "self").mkdir()
    assert runs_here(VMI, POD, tmp_path)


def test_what_others_do_about_it_is_no_launcher(tmp_path: Path) -> None:
    a_process(tmp_path, 1, "init", uid="0")
    a_process(tmp_path, 2, "tail", "-f", f"/pods/x/{VMI}/log", uid="0\t0\t0\t0")
    a_process(tmp_path, 3, "qemu-system-x86_64", "another")
    # The Pod's sandbox, which goes when the kubelet comes to it.
    a_process(tmp_path, 4, "/pause", group=OF_POD)
    # One that ended between the look at the directory and the look at it.
    (tmp_path / "5").mkdir()
    assert not runs_here(VMI, POD, tmp_path)


@pytest.mark.parametrize("group", [OF_POD, OF_POD_BY_SYSTEMD], ids=["cgroupfs", "systemd"])
def test_one_that_hangs_on_its_way_out_still_runs_and_a_zombie_does_not(tmp_path: Path, group: str) -> None:
    a_process(tmp_path, 8, state="Z", group=group)
    assert not runs_here(VMI, POD, tmp_path)
    a_process(tmp_path, 9, state="D", group=group)
    assert runs_here(VMI, POD, tmp_path)
    assert not runs_here(VMI, "", tmp_path)
