"""Which processes are launchers in Pods of a kubelet, and how they are told that their host goes down."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvedge.appliance.cluster import node_shutdown
from kvedge.appliance.cluster.node_shutdown import PodLauncher, pod_launchers, shut_down_launchers
from kvedge.handler.guest import last_word
from kvedge.handler.guest.last_word import HOST_SHUTDOWN_MESSAGE as MESSAGE

UID = "0d2b9d9c-4d1f-4d53-9b3c-6f1b3a0a8f6e"
OTHER = UID.replace("0d2b", "1d2b")
V1 = f"4:memory:/kubepods/burstable/pod{UID}/0123\n1:name=systemd:/kubepods/burstable/pod{UID}/0123\n"
V2 = f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-1.scope\n"
LAUNCHER = ["/var/lib/kvedge/launcher/kvedge", "launcher", "--monitor", "--namespace", "shop", "--name", "web"]


def add(proc: Path, pid: int, parent: int, words: list[str], cgroup: str, *, contained: bool = True) -> None:
    directory = proc / str(pid)
    directory.mkdir()
    (directory / "cmdline").write_bytes("\0".join([*words, ""]).encode())
    (directory / "cgroup").write_text(cgroup)
    numbers = f"{pid}\t7" if contained else str(pid)
    (directory / "status").write_text(f"Name:\tx\nPPid:\t{parent}\nNSpid:\t{numbers}\n")


def test_a_launcher_is_found_by_its_cgroup_and_told_by_the_first_process_of_its_container(tmp_path: Path) -> None:
    kubelet, proc = tmp_path / "kubelet", tmp_path / "proc"
    proc.mkdir()
    volume(kubelet, UID)
    for number, (cgroup, name) in enumerate(((V1, "web"), (V2, "db"))):
        base = 100 * (number + 1)
        words = [*LAUNCHER[:-1], name]
        add(proc, base, 1, ["containerd-shim"], "0::/system.slice\n", contained=False)
        add(proc, base + 1, base, ["kvedge", "monitor-resume", str(base + 2), "/x", "", *words], cgroup)
        add(proc, base + 2, base + 1, words, cgroup)
        add(proc, base + 3, base + 2, ["qemu-system-x86_64"], cgroup)
    # Of one box, and somebody's programs that have a launcher's name in a kubelet's Pod.
    add(proc, 400, 1, LAUNCHER, f"0::/kvedge.slice/kvedge-kv0.slice/kvedge-pod-{OTHER}.scope\n")
    add(proc, 500, 1, ["launcher-of-games"], V1)
    add(proc, 550, 1, ["games", "launcher", "--name", "chess"], V1.replace(UID, OTHER))
    (proc / "self").mkdir()
    (proc / "600").mkdir()
    assert pod_launchers(kubelet, proc) == [PodLauncher("shop/db", 201, UID), PodLauncher("shop/web", 101, UID)]


def child(code: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", f"import signal\n{code}\nprint(flush=True)\nsignal.pause()"],
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    return process


def volume(kubelet: Path, uid: str) -> Path:
    folder = kubelet / "pods" / uid / "volumes/kubernetes.io~empty-dir/public"
    folder.mkdir(parents=True)
    return folder / "final.json"


def in_pod(proc: Path, pid: int, uid: str) -> None:
    """Say of a process of the test that it is in a Pod."""
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cgroup").write_text(V1.replace(UID, uid))


def test_those_that_end_have_failed_by_their_hosts_end_and_those_that_do_not_are_killed(tmp_path: Path) -> None:
    uids = [UID, OTHER]
    words = [volume(tmp_path, uid) for uid in uids]
    polite, stubborn = child(""), child("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    gone = subprocess.Popen(["true"])
    gone.wait()
    launchers = [
        PodLauncher("shop/polite", polite.pid, uids[0]),
        PodLauncher("shop/stubborn", stubborn.pid, uids[1]),
        PodLauncher("shop/gone", gone.pid, UID),
    ]
    told: list[str] = []
    for launcher in launchers:
        in_pod(tmp_path / "proc", launcher.pid, launcher.pod_uid)
    try:
        assert shut_down_launchers(launchers, tmp_path, 2.0, told.append, tmp_path / "proc") == ["shop/stubborn"]
    finally:
        codes = [process.wait() for process in (polite, stubborn)]
        for process in (polite, stubborn):
            assert process.stdout is not None
            process.stdout.close()
    assert codes == [-signal.SIGTERM, -signal.SIGKILL]
    assert [json.loads(path.read_text())["message"] for path in words] == [MESSAGE, MESSAGE]
    assert told.index("shop/polite is down") < told.index("shop/stubborn is down")
    assert sorted(os.listdir(words[0].parent)) == ["final.json", "host-shutdown"]


def test_a_process_that_has_a_launcher_s_number_by_now_is_left_alone(tmp_path: Path) -> None:
    other = child("")
    in_pod(tmp_path / "proc", other.pid, OTHER)
    told: list[str] = []
    try:
        launchers = [PodLauncher("shop/web", other.pid, UID)]
        assert shut_down_launchers(launchers, tmp_path, 2.0, told.append, tmp_path / "proc") == []
        assert (other.poll(), told) == (None, [])
    finally:
        other.kill()
        other.communicate()


def test_a_guest_that_has_left_is_not_ended_by_its_host(tmp_path: Path) -> None:
    word = volume(tmp_path, UID)
    word.write_text('{"state": "DOMAIN_STATE_SHUTOFF", "reason": "DOMAIN_REASON_MIGRATED"}')
    assert last_word.end_by_host(tmp_path, UID) == ""
    assert json.loads(word.read_text())["reason"] == "DOMAIN_REASON_MIGRATED"


def test_a_last_word_that_cannot_be_replaced_keeps_nobody_from_being_shut_down(tmp_path: Path) -> None:
    uids = [UID, OTHER]
    hostile, honest = (volume(tmp_path, uid) for uid in uids)
    (hostile / "something").mkdir(parents=True)
    running = [child(""), child("")]
    launchers = [PodLauncher(f"shop/{uid[:4]}", one.pid, uid) for one, uid in zip(running, uids, strict=True)]
    told: list[str] = []
    try:
        for launcher in launchers:
            in_pod(tmp_path / "proc", launcher.pid, launcher.pod_uid)
        assert shut_down_launchers(launchers, tmp_path, 10.0, told.append, tmp_path / "proc") == []
    finally:
        for one in running:
            one.communicate()
    assert json.loads(honest.read_text())["message"] == MESSAGE
    assert "shop/0d2b is down, and its last word stays: Is a directory" in told


def test_a_full_disk_keeps_nobody_from_being_shut_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(node_shutdown, "announce_host_shutdown", full)
    monkeypatch.setattr(last_word, "overrule_last_word", full)
    running = child("")
    told: list[str] = []
    in_pod(tmp_path / "proc", running.pid, UID)
    try:
        launchers = [PodLauncher("shop/web", running.pid, UID)]
        assert shut_down_launchers(launchers, tmp_path, 10.0, told.append, tmp_path / "proc") == []
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == -signal.SIGTERM
    assert told == [
        "shutting down shop/web, which cannot be told why: No space left on device",
        "shop/web is down, and its last word stays: No space left on device",
    ]
