"""Containers as they are started: what they see, what they may, how they end."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvedge.network.netns import create_netns, delete_netns
from kvedge.standalone.agent.container.container_start import ContainerStartError
from kvedge.standalone.agent.container.container_state import (
    Ended,
    ExitRecord,
    Running,
    container_state,
    record_exit,
    signal_container,
)
from tests.machine.agent.containers import Containers, containers, host_mounts, is_alive, mount, status_of
from tests.support.waiting import wait_until


@pytest.fixture
def pod(tmp_path: Path, tree: Path) -> Iterator[Containers]:
    with containers(tmp_path, tree) as made:
        yield made
    assert host_mounts(tmp_path) == []


def test_a_command_runs_as_the_pod_s_user_and_its_exit_code_and_output_are_kept(pod: Containers) -> None:
    ended, said = pod.run("c", "id; echo wrong >&2; exit 7")

    assert said == "uid=107 gid=107 groups=107\nwrong\n"
    assert (ended.exit_code, ended.signal, ended.reason) == (7, 0, "Error")


def test_a_command_that_ends_well_is_completed(pod: Containers) -> None:
    ended, _ = pod.run("c", "true")

    assert (ended.exit_code, ended.reason) == (0, "Completed")


def test_a_command_that_is_killed_has_the_signal_in_its_exit_code(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    assert signal_container(files, signal.SIGKILL, pod.boot)

    ended = pod.ended(files)
    assert (ended.exit_code, ended.signal, ended.reason) == (137, 9, "Error")


def test_a_command_that_is_not_there_is_a_start_error_with_its_name(pod: Containers) -> None:
    files = pod.start("c", "", argv=["nonsense", "--flag"])
    state = pod.state(files)

    assert isinstance(state, Ended)
    assert state.started_at is None
    assert (state.exit.exit_code, state.exit.reason) == (128, "StartError")
    assert "nonsense" in state.exit.message


def test_the_command_is_the_first_process_of_its_own_namespaces(pod: Containers) -> None:
    _, said = pod.run("c", "echo $$")
    assert said == "1\n"

    files = pod.start("d", "sleep 1000")
    state = pod.state(files)
    assert isinstance(state, Running)
    for kind in ("mnt", "pid", "ipc", "uts"):
        assert os.readlink(f"/proc/{state.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")


def test_it_sees_its_own_network_host_name_and_sysctls(pod: Containers) -> None:
    name = f"kvt{os.getpid()}-container"
    path = create_netns(name)
    try:
        ended, said = pod.run(
            "c",
            "hostname; cat /proc/sys/net/ipv4/ip_unprivileged_port_start; ls /sys/class/net",
            netns=str(path),
            sysctls={"net.ipv4.ip_unprivileged_port_start": "0"},
        )
    finally:
        delete_netns(name)

    assert ended.exit_code == 0
    assert said.split()[:2] == ["guest", "0"]
    assert "lo" in said.split()[2:]
    assert "eth0" not in said
    assert Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text().strip() == "1024"


def test_it_has_no_capability_and_cannot_gain_one(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    state = pod.state(files)
    assert isinstance(state, Running)
    status = status_of(state.pid)

    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert status["Groups"].split() == ["107"]
    assert status["Umask"] == "0022"


def test_root_in_a_container_keeps_only_what_it_was_given(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000", uid=0, gid=0, groups=[0], capabilities=["CHOWN", "NET_BIND_SERVICE"])
    state = pod.state(files)
    assert isinstance(state, Running)
    status = status_of(state.pid)

    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {1 << 0 | 1 << 10}


def test_signals_that_python_ignores_are_not_ignored_in_the_container(pod: Containers) -> None:
    _, said = pod.run("c", "", argv=["cat", "/proc/self/status"])
    status = dict(line.split(":\t") for line in said.splitlines() if line.startswith("Sig"))

    # Signals 32 and 33 are the C library's own.
    assert int(status["SigIgn"], 16) & ~(0b11 << 31) == 0
    assert int(status["SigBlk"], 16) == 0


def test_no_descriptor_of_the_agent_leaks_into_it(pod: Containers) -> None:
    inheritable = os.dup(0)
    os.set_inheritable(inheritable, True)
    try:
        _, said = pod.run("c", "", argv=["ls", "/proc/self/fd"])
    finally:
        os.close(inheritable)

    # The fourth is the directory that is being listed.
    assert said.split() == ["0", "1", "2", "3"]


def test_the_image_is_never_written_but_the_container_may_write_to_its_root(pod: Containers, tree: Path) -> None:
    before = sorted(os.listdir(tree))
    ended, said = pod.run(
        "c", "echo new > /tmp/file && cat /tmp/file && rm /bin/sh && touch /new", uid=0, gid=0, capabilities=["CHOWN"]
    )

    assert (ended.exit_code, said) == (0, "new\n")
    assert sorted(os.listdir(tree)) == before
    assert (tree / "bin/sh").is_symlink()


def test_a_read_only_root_cannot_be_written(pod: Containers) -> None:
    ended, said = pod.run("c", "touch /new", uid=0, gid=0, writable_bytes=0)

    assert ended.exit_code == 1
    assert "Read-only file system" in said


def test_what_a_container_writes_to_its_root_is_bounded(pod: Containers) -> None:
    ended, said = pod.run("c", "cat /dev/zero > /tmp/full", writable_bytes=4 << 20)

    assert ended.exit_code == 1
    assert "No space left" in said


def test_a_root_user_without_the_capability_cannot_mount(pod: Containers) -> None:
    ended, said = pod.run("c", "mount -t tmpfs x /tmp", uid=0, gid=0, capabilities=["CHOWN", "SYS_CHROOT"])

    assert ended.exit_code != 0
    assert "denied" in said or "not permitted" in said or "must be superuser" in said


@pytest.mark.parametrize("seccomp", [True, False])
def test_unusual_system_calls_are_refused_when_the_pod_asks_for_that(
    pod: Containers, tmp_path: Path, seccomp: bool
) -> None:
    script = tmp_path / "calls.py"
    # unshare(CLONE_NEWUSER), which needs no privilege; add_key; clone3 with nothing.
    script.write_text(
        "import ctypes, os, threading\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "pid = os.fork()\n"
        "print(libc.unshare(0x10000000), ctypes.get_errno()) if pid == 0 else os.waitpid(pid, 0)\n"
        "thread = threading.Thread(target=lambda: print('thread') if pid else None)\n"
        "thread.start(); thread.join()\n"
    )
    ended, said = pod.run(
        "c",
        "",
        argv=["/usr/bin/python3", "-I", "-u", "/calls.py"],
        seccomp=seccomp,
        mounts=[
            mount("/usr", "/usr", read_only=True),
            mount("/usr/lib", "/lib", read_only=True),
            *([mount("/usr/lib64", "/lib64", read_only=True)] if Path("/usr/lib64").exists() else []),
            mount(script, "/calls.py"),
        ],
    )

    assert ended.exit_code == 0, said
    assert said.splitlines() == (["-1 1", "thread"] if seccomp else ["0 0", "thread"])


def test_the_host_s_secrets_in_proc_and_sys_are_out_of_reach(pod: Containers) -> None:
    _, said = pod.run(
        "c",
        "cat /proc/keys /proc/timer_list; ls -A /sys/firmware /proc/acpi; echo x > /proc/sys/kernel/domainname;"
        "mkdir /sys/x; touch /sys/x",
        uid=0,
        gid=0,
        capabilities=["DAC_OVERRIDE"],
    )

    lines = [line for line in said.splitlines() if line]
    assert lines[:2] == ["/proc/acpi:", "/sys/firmware:"]
    assert len(lines) == 5
    assert all("Read-only file system" in line or "not permitted" in line for line in lines[2:])


def test_devices_are_nodes_of_its_own_that_its_user_can_open(pod: Containers) -> None:
    before = os.stat("/dev/net/tun")
    _, said = pod.run(
        "c",
        "ls -ln /dev/net/tun; ls /dev; echo x > /dev/null; : < /dev/net/tun && echo opened",
        devices=[{"host": "/dev/net/tun", "path": "/dev/net/tun"}],
    )

    lines = said.splitlines()
    assert lines[0].split()[:4] == ["crw-------", "1", "107", "107"]
    assert lines[-1] == "opened"
    assert set(lines[1:-1]) == {
        "fd", "full", "mqueue", "net", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
        "urandom", "zero",
    }  # fmt: skip
    after = os.stat("/dev/net/tun")
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_volumes_appear_where_they_should_through_the_image_s_links(pod: Containers, tmp_path: Path) -> None:
    shared, fixed = tmp_path / "shared", tmp_path / "fixed"
    for folder in (shared, fixed):
        folder.mkdir()
        folder.chmod(0o777)
    (fixed / "disk.img").write_text("disk")
    ended, said = pod.run(
        "c",
        "cat /var/run/app/inner/disk.img; echo out > /run/app/file; echo no > /var/run/app/inner/disk.img; ls /run",
        mounts=[mount(fixed, "/var/run/app/inner", read_only=True), mount(shared, "/var/run/app")],
    )

    assert ended.exit_code == 0
    assert said.startswith("disk")
    assert "Read-only file system" in said
    assert said.splitlines()[-1] == "app"
    assert (shared / "file").read_text() == "out\n"
    assert (fixed / "disk.img").read_text() == "disk"


def test_a_single_file_can_be_mounted_over_one_of_the_image_or_where_none_is(pod: Containers, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("1.2.3.4 here\n")
    _, said = pod.run(
        "c",
        "cat /etc/passwd /opt/deep/hosts",
        mounts=[mount(tmp_path / "hosts", "/etc/passwd"), mount(tmp_path / "hosts", "/opt/deep/hosts")],
    )

    assert said == "1.2.3.4 here\n" * 2


def test_volumes_carry_no_devices_and_no_set_user_id(pod: Containers, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    os.mknod(volume / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    _, said = pod.run("c", "echo x > /v/null; mount | grep ' /v '", mounts=[mount(volume, "/v")])

    assert "Permission denied" in said
    assert "nosuid,nodev" in said


def test_a_part_of_a_volume_is_mounted_and_made_when_it_lacks(pod: Containers, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "a").mkdir(parents=True)
    (volume / "a/file").write_text("part")
    (volume / "secret").write_text("whole")
    _, said = pod.run(
        "c",
        "cat /v/file; ls /v /w",
        mounts=[mount(volume, "/v", sub_path="a"), mount(volume, "/w", sub_path="new/dir")],
    )

    assert said.split() == ["partfile", "/v:", "/w:"] or "secret" not in said
    assert (volume / "new/dir").is_dir()


@pytest.mark.parametrize("target", ["/etc", "../../../../../etc", "/proc/1/root"])
def test_a_sub_path_that_is_a_link_out_of_its_volume_is_refused(pod: Containers, tmp_path: Path, target: str) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "way").symlink_to(target)

    with pytest.raises(ContainerStartError, match="links"):
        pod.start("c", "true", mounts=[mount(volume, "/v", sub_path="way")])


def test_a_hostile_image_cannot_have_a_volume_mounted_on_the_host(tmp_path: Path, tree: Path) -> None:
    evil = tmp_path / "evil"
    subprocess.run(["cp", "-a", tree, evil], check=True)
    victim = tmp_path / "victim"
    victim.mkdir()
    (evil / "data").symlink_to(f"../../../../../../../..{victim}")
    (evil / "proc").symlink_to("/srv")
    (evil / "dev").symlink_to("../../data")
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "mine").write_text("x")
    with containers(tmp_path, evil) as pod:
        ended, said = pod.run("c", "ls /data; cat /data/mine", mounts=[mount(volume, "/data")])

    assert (ended.exit_code, said) == (0, "mine\nx")
    assert os.listdir(victim) == []
    assert host_mounts(tmp_path) == []


def test_a_mount_point_on_a_file_of_the_image_is_an_error_with_its_path(pod: Containers, tmp_path: Path) -> None:
    with pytest.raises(ContainerStartError, match="/etc/passwd/x"):
        pod.start("c", "true", mounts=[mount(tmp_path, "/etc/passwd/x")])
    assert not pod.files.container("c").record.exists()


def test_a_volume_that_is_not_there_is_an_error_and_the_container_can_be_started_later(
    pod: Containers, tmp_path: Path
) -> None:
    with pytest.raises(ContainerStartError, match="nowhere"):
        pod.start("c", "true", mounts=[mount(tmp_path / "nowhere", "/v")])
    (tmp_path / "nowhere").mkdir()

    ended, _ = pod.run("c", "ls /v", mounts=[mount(tmp_path / "nowhere", "/v")])
    assert ended.exit_code == 0


def test_a_working_directory_that_is_not_there_is_named(pod: Containers) -> None:
    state = pod.state(pod.start("c", "true", working_dir="/nowhere"))

    assert isinstance(state, Ended)
    assert "working directory" in state.exit.message


def test_killing_the_first_process_takes_all_others_along(pod: Containers) -> None:
    files = pod.start("c", "sleep 1001 & sleep 1002 & wait")
    state = pod.state(files)
    assert isinstance(state, Running)
    children = wait_until(lambda: _children(state.pid, 2), "both children")

    signal_container(files, signal.SIGKILL, pod.boot)
    pod.ended(files)

    assert not any(is_alive(child) for child in children)


def _children(pid: int, count: int) -> list[int]:
    found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found if len(found) == count else []


def test_a_container_is_never_started_twice(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")

    with pytest.raises(ContainerStartError, match="runs already"):
        pod.start("c", "sleep 1000")
    signal_container(files, signal.SIGKILL, pod.boot)
    pod.ended(files)
    with pytest.raises(ContainerStartError, match="started before"):
        pod.start("c", "sleep 1000")


def test_an_exit_that_nobody_has_seen_is_lost_only_with_its_holder(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    record = pod.record(files)
    os.kill(record["holder"], signal.SIGKILL)
    wait_until(lambda: not is_alive(record["holder"]), "its holder's end")

    # The container itself runs on.
    assert isinstance(pod.state(files), Running)
    os.kill(record["pid"], signal.SIGKILL)
    ended = pod.ended(files)

    # Whoever has become its parent reaps it, sooner or later.
    assert ended.exit_code == 137
    assert ended.reason in ("ContainerStatusUnknown", "Error")


def test_a_container_of_an_earlier_boot_is_not_mistaken_for_a_process_with_its_number(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    state = pod.state(files)
    assert isinstance(state, Running)

    other = container_state(files, "another boot")

    assert isinstance(other, Ended)
    assert other.exit.reason == "ContainerStatusUnknown"
    assert is_alive(state.pid)
    os.kill(state.pid, signal.SIGKILL)
    os.kill(pod.record(files)["holder"], signal.SIGKILL)


def test_the_holder_is_gone_once_the_exit_is_recorded(pod: Containers) -> None:
    files = pod.start("c", "exit 3")
    holder = pod.record(files)["holder"]
    assert pod.ended(files).exit_code == 3

    assert not is_alive(holder)
    # And once more, from the record alone.
    assert pod.ended(files).exit_code == 3


def test_a_holder_that_a_killed_agent_left_behind_is_ended_by_the_next_look(pod: Containers) -> None:
    files = pod.start("c", "exit 3")
    record = pod.record(files)
    wait_until(lambda: not is_alive(record["pid"]), "its end")
    # Killed after the exit was written down, before the holder was let go.
    record_exit(files, ExitRecord(exit_code=3, reason="Error", finished_at=1.0))
    assert is_alive(record["holder"])

    assert pod.ended(files).exit_code == 3
    assert not is_alive(record["holder"])


def test_the_starter_ends_with_its_agent_and_containers_do_not(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    starter = pod.starter._starter
    assert starter is not None
    pod.starter.stop()

    assert not Path(f"/proc/{starter.pid}").exists()
    assert isinstance(pod.state(files), Running)


def test_a_starter_that_was_killed_is_replaced_and_its_containers_run_on(pod: Containers) -> None:
    first = pod.start("a", "sleep 1000")
    starter = pod.starter._starter
    assert starter is not None
    os.kill(starter.pid, signal.SIGKILL)
    second = pod.start("b", "sleep 1000")

    assert isinstance(pod.state(first), Running)
    assert isinstance(pod.state(second), Running)
    signal_container(first, signal.SIGKILL, pod.boot)
    assert pod.ended(first).exit_code == 137


def test_an_agent_that_is_gone_before_the_answer_changes_nothing(pod: Containers) -> None:
    spec = pod.spec("c", "sleep 1000")
    pod.starter.prepare()
    starter = pod.starter._starter
    assert starter is not None
    # Nobody reads the answer; there is not even a FIFO.
    os.write(starter.orders, json.dumps(spec).encode() + b"\n")

    wait_until(lambda: isinstance(pod.state(pod.files.container("c")), Running), "it runs")


def test_half_an_order_starts_nothing(pod: Containers) -> None:
    spec = pod.spec("c", "sleep 1000")
    pod.starter.prepare()
    starter = pod.starter._starter
    assert starter is not None
    os.write(starter.orders, json.dumps(spec).encode()[:-1])
    pod.starter.stop()

    assert not pod.files.container("c").record.exists()


def test_many_containers_are_started_at_once(pod: Containers) -> None:
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda number: pod.start(f"c{number}", "sleep 1000"), range(16)))

    assert all(isinstance(pod.state(files), Running) for files in started)


def test_a_start_is_quick_and_a_running_container_costs_next_to_nothing(pod: Containers) -> None:
    pod.run("warm", "true")
    # The best of some: this machine may be busy with other things.
    for number in range(60):
        begun = time.monotonic()
        files = pod.start(f"c{number}", "sleep 1000")
        if (taken := time.monotonic() - begun) < 0.05:
            break
    assert taken < 0.05
    holder = pod.record(files)["holder"]
    # It answers before it has become the holder.
    wait_until(lambda: _pss(holder) < 512, "a holder of half a megabyte at most")


def _pss(pid: int) -> int:
    """Its share of memory, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
