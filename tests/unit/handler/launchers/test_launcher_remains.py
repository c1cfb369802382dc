"""What is taken for a launcher that still runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.handler.launchers.launcher_remains import runs_here

VMI = "22222222-2222-2222-2222-222222222222"
POD = "33333333-3333-3333-3333-333333333333"
OTHER = "44444444-4444-4444-4444-444444444444"
LAUNCHER = "107\t107\t107\t107"
OF_POD = f"0::/kubepods/burstable/pod{POD}/compute"
OF_POD_BY_SYSTEMD = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-1.scope"
OF_BOX = f"0::/kvedge.slice/kvedge-kv0.slice/kvedge-pod-{POD}.scope"
OF_BOX_WITHOUT_SYSTEMD = f"4:memory:/kvedge/kv0/{POD}\n0::/"
OF_A_POD = [
    pytest.param(OF_POD, id="a kubelet's Pod, cgroupfs"),
    pytest.param(OF_POD_BY_SYSTEMD, id="a kubelet's Pod, systemd"),
    pytest.param(OF_BOX, id="a Pod of one box, systemd"),
    pytest.param(OF_BOX_WITHOUT_SYSTEMD, id="a Pod of one box, cgroupfs"),
]
# Version 1 shows nothing else of one that is ending.
OF_NONE = "4:memory:/\n0::/"
OF_OTHER = f"0::/kubepods/burstable/pod{OTHER}/compute"
MONITOR = ("python3", "-I", "-c", "x", "kvedge", "launcher", "--uid", VMI)
ROOT = "0\t0\t0\t0"
KERNEL_THREAD = 0x00200040


def a_process(
    proc: Path,
    pid: int,
    *command: str,
    uid: str = LAUNCHER,
    state: str = "S",
    threads: int = 1,
    group: str = OF_NONE,
    flags: int = 0x400100,
) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"".join(part.encode() + b"\0" for part in command))
    (folder / "status").write_text(f"Name:\tx\nState:\t{state} (some)\nUid:\t{uid}\nThreads:\t{threads}\n")
    (folder / "stat").write_text(f"{pid} (x) y) {state} 1 1 1 0 -1 {flags} 0 0\n")
    (folder / "cgroup").write_text(f"{group}\n")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(MONITOR, id="its monitor"),
        pytest.param(
            ("qemu-system-x86_64", "-chardev", f"path=/var/run/kubevirt-private/{VMI}/virt-serial0"), id="QEMU"
        ),
    ],
)
@pytest.mark.parametrize(
    "group", [*OF_A_POD, pytest.param("0::/system.slice/kvedge.service", id="where no cgroup could be made")]
)
def test_what_names_the_vmi_and_is_the_launchers_users_runs(
    tmp_path: Path, command: tuple[str, ...], group: str
) -> None:
    a_process(tmp_path, 1, "init", uid="0")
    a_process(tmp_path, 7, *command, group=group)
    (tmp_path / "self").mkdir()
    assert runs_here(VMI, POD, tmp_path)
    # The Pod's object may be gone: what may be it is taken for it.
    assert runs_here(VMI, "", tmp_path)


def test_what_others_do_about_it_is_no_launcher(tmp_path: Path) -> None:
    a_process(tmp_path, 1, "init", uid="0")
    a_process(tmp_path, 2, "tail", "-f", f"/pods/x/{VMI}/log", uid=ROOT)
    a_process(tmp_path, 3, "qemu-system-x86_64", "another")
    # The Pod's sandbox, which goes when the kubelet comes to it.
    a_process(tmp_path, 4, "/pause", group=OF_POD)
    # One that ended between the look at the directory and the look at it.
    (tmp_path / "5").mkdir()
    assert not runs_here(VMI, POD, tmp_path)


def test_what_is_in_another_pod_is_not_believed_to_be_this_launcher(tmp_path: Path) -> None:
    a_process(tmp_path, 7, *MONITOR, group=OF_OTHER)
    a_process(tmp_path, 8, state="D", group=OF_OTHER)
    assert not runs_here(VMI, POD, tmp_path)


def test_on_a_node_that_is_in_a_pod_itself_that_pod_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(f"{OF_OTHER}\n")
    a_process(tmp_path, 3, "python3", group=OF_OTHER)
    assert not runs_here(VMI, POD, tmp_path)
    # No cgroup could be made for the launcher's own Pod.
    a_process(tmp_path, 7, *MONITOR, group=OF_OTHER)
    assert runs_here(VMI, POD, tmp_path)


@pytest.mark.parametrize("group", [*OF_A_POD, pytest.param(OF_NONE, id="version 1, which takes it out")])
def test_one_that_hangs_on_its_way_out_still_runs_and_a_zombie_does_not(tmp_path: Path, group: str) -> None:
    a_process(tmp_path, 8, state="Z", group=group)
    assert not runs_here(VMI, POD, tmp_path)
    assert not runs_here(VMI, "", tmp_path)
    a_process(tmp_path, 9, state="D", group=group)
    assert runs_here(VMI, POD, tmp_path)
    # Whose Pod it is nobody knows.
    assert runs_here(VMI, "", tmp_path)


def test_a_zombie_whose_other_threads_hang_still_runs(tmp_path: Path) -> None:
    a_process(tmp_path, 8, state="Z", threads=2, group=OF_POD)
    assert runs_here(VMI, POD, tmp_path)


def test_kernel_threads_are_no_launcher_even_in_its_cgroup(tmp_path: Path) -> None:
    a_process(tmp_path, 2, uid=ROOT, flags=KERNEL_THREAD)
    a_process(tmp_path, 30, uid=ROOT, flags=KERNEL_THREAD, group=OF_POD)
    assert not runs_here(VMI, POD, tmp_path)
    assert not runs_here(VMI, "", tmp_path)
    # What is not the kernel's may be what the runtime has just started for the launcher.
    a_process(tmp_path, 31, uid=ROOT, group=OF_POD)
    assert runs_here(VMI, POD, tmp_path)


def test_roots_own_that_end_are_no_launcher(tmp_path: Path) -> None:
    a_process(tmp_path, 9, uid=ROOT, state="D")
    assert not runs_here(VMI, POD, tmp_path)
