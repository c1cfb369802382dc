"""A guest's memory is saved with its disks at one moment, and another Pod's guest goes on from there: once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.agent_guest import agent_image, agent_vmi, in_guest
from tests.support.launcher_pod import QEMU_USER, UID, LauncherPod, guest_interface, kill, launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine
RAM = 192 << 20
ENDED = (m.DISK_COPY_COMPLETE, m.DISK_COPY_FAILED)
MEMORY = "saved-memory-of-this-vm"
# /run is memory. What is on the disk is behind it, and never ahead.
COUNT = (
    "setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >/run/count; echo $i >/data/count; usleep 20000; done'"
    " </dev/null >/dev/null 2>&1 &"
)
# Changes a module of the launcher once it is imported.
HOOK = """
import importlib.abc, importlib.util, os, signal, sys

def spoil(module):
    {change}

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "{module}":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            spoil(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
# Ends the launcher at one step of a resume, once.
KILLER = HOOK.replace("{module}", "kvedge.launcher.run.memory_resume").replace(
    "{change}",
    """
    kind = module.MemoryResume
    take, settle, check = kind._take, kind._settle, kind._check_disks
    def end():
        try:
            os.close(os.open("/run/kubevirt-private/killed", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
    def _check_disks(self, *rest):
        check(self, *rest)
        "{step}" == "before the load" and end()
    def _take(self, *rest):
        "{step}" == "before the mark" and end()
        take(self, *rest)
        "{step}" == "after the mark" and end()
    def _settle(self, *rest):
        "{step}" == "after the resume" and end()
        settle(self, *rest)
    kind._check_disks, kind._take, kind._settle = _check_disks, _take, _settle
""",
)


class Saved(NamedTuple):
    """What a snapshot holds, and the count of the moment just before it."""

    memory: Path
    data: Path
    count: int


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent_image(tmp_path_factory.mktemp("image"))


@contextlib.contextmanager
def a_pod(directory: Path, seed: Path, image: Path, before: str = "") -> Iterator[LauncherPod]:
    with launcher_pod(directory, seed=seed, images={"kernel-boot": image}, before=before) as started:
        (started.directory / "public" / "hotplug-disks").mkdir(mode=0o755)
        yield started


def place(pod: LauncherPod, name: str) -> Path:
    """A file as the handler puts it into the Pod."""
    path = pod.directory / "public" / "hotplug-disks" / f"{name}.img"
    path.write_bytes(b"")
    path.chmod(0o600)
    os.chown(path, QEMU_USER, QEMU_USER)
    return path


def claim(pod: LauncherPod, name: str, content: Path | None = None) -> Path:
    """The image in a claim that the Pod has."""
    directory = pod.directory / "private" / "vmi-disks" / name
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "disk.img"
    if content is None:
        path.write_bytes(b"")
        os.truncate(path, 16 << 20)
    else:
        shutil.copyfile(content, path)
    for each in (directory.parent, directory, path):
        os.chown(each, QEMU_USER, QEMU_USER)
    return path


def a_vmi(pod: LauncherPod) -> dict[str, Any]:
    """The guest, with its data on a claim."""
    vmi = agent_vmi(pod)
    vmi["spec"]["volumes"][0] = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    info = {
        "claimName": "data",
        "volumeMode": "Filesystem",
        "requests": {"storage": "16Mi"},
        "capacity": {"storage": "16Mi"},
        "filesystemOverhead": "0",
    }
    status = {"volumeStatus": [{"name": "data", "target": "", "persistentVolumeClaimInfo": info}]}
    return {**vmi, "status": status}


def count(pod: LauncherPod) -> int:
    return int(in_guest(pod, "cat /run/count") or "0")


def counts_on(pod: LauncherPod) -> int:
    before = count(pod)
    return wait_until(lambda: (now := count(pod)) > before and now, "the guest counts on", seconds=30)


def begin(pod: LauncherPod, name: str) -> None:
    disks = [m.CopiedDisk(volume="data", target=f"{name}-data")]
    pod.call("BeginDiskCopy", m.BeginDiskCopyRequest(id=name, disks=disks, memory=f"{name}-memory"))


def ended(pod: LauncherPod, name: str) -> m.DiskCopyJob:
    def over() -> m.DiskCopyJob | None:
        try:
            found = pod.call("GetDomain").disk_copy
        except grpc.RpcError:
            # Its launcher was just killed.
            return None
        return found if found.id == name and found.state in ENDED else None

    return wait_until(over, "the copy is over", seconds=90, pause=0.1)


def save(pod: LauncherPod, name: str) -> m.DiskCopyJob:
    begin(pod, name)
    return ended(pod, name)


def start_counting(pod: LauncherPod) -> None:
    """A guest that counts, in memory and on its disk."""
    claim(pod, "data")
    pod.sync(a_vmi(pod), network=True)
    wait_until(lambda: pod.call("GetDomain").guest.os_id, "what the agent says", seconds=60, pause=0.1)
    in_guest(pod, COUNT)
    wait_until(lambda: count(pod) > 3, "the guest counts", seconds=30)


def ask_to_resume(pod: LauncherPod, vmi: dict[str, Any]) -> Any:
    """The status after a start from the memory in the claim."""
    request = m.SyncRequest(
        vmi_json=json.dumps(vmi).encode(),
        interfaces=[guest_interface()],
        options=m.NodeOptions(emulation=True),
        memory_bytes=RAM,
        resume=MEMORY,
    )
    return pod.call("Sync", request, 90)


def resume(pod: LauncherPod, saved: Saved, vmi: dict[str, Any] | None = None) -> Any:
    """The status after a start from this snapshot: the disk comes first, and its memory after it."""
    claim(pod, "data", saved.data)
    claim(pod, MEMORY, saved.memory)
    return ask_to_resume(pod, vmi or a_vmi(pod))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, seed: Path, image: Path) -> Saved:
    directory = tmp_path_factory.mktemp("saved")
    with a_pod(directory / "pod", seed, image) as pod:
        start_counting(pod)
        in_guest(pod, "echo before >/data/word; sync")
        memory, data = place(pod, "one-memory"), place(pod, "one-data")
        before = count(pod)
        job = save(pod, "one")
        assert (job.state, job.message, job.quiesce) == (m.DISK_COPY_COMPLETE, "", "")
        assert job.stood_ms > 0
        assert (memory.stat().st_mode & 0o777, memory.stat().st_uid) == (0o600, QEMU_USER)
        assert pod.call("GetDomain").state == m.DOMAIN_STATE_RUNNING
        assert pod.call("GetDomain").saves_memory
        in_guest(pod, "echo after >/data/word; sync; echo 1000000 >/run/mark")
        counts_on(pod)
        shutil.copyfile(memory, directory / "memory")
        shutil.copyfile(data, directory / "data")
        assert_a_killed_launcher_lets_it_go_on(pod)
        assert_a_paused_guest_stays_paused(pod)
    return Saved(directory / "memory", directory / "data", before)


def assert_goes_on(pod: LauncherPod, saved: Saved) -> None:
    """The guest has the memory of the snapshot, its disk is of the same moment, and its file system is whole."""
    wait_until(lambda: in_guest(pod, "cat /run/count"), "the guest answers", seconds=30)
    assert saved.count <= counts_on(pod)
    assert in_guest(pod, "cat /run/mark 2>/dev/null || echo none").strip() == "none"
    # Read from the disk, and not from what the guest had cached.
    in_guest(pod, "sync; echo 3 >/proc/sys/vm/drop_caches")
    assert in_guest(pod, "cat /data/word").strip() == "before"
    in_guest(pod, "for i in 1 2 3 4 5; do echo $i >/data/more-$i; done; sync")
    in_guest(pod, "pkill -f run/count; true")
    # What it was about to write may still hold it open.
    tell = "umount /data 2>/dev/null && echo gone >/run/gone; cat /run/gone 2>/dev/null; true"
    wait_until(lambda: "gone" in in_guest(pod, tell), "it is unmounted")
    assert_clean(pod)


def assert_clean(pod: LauncherPod) -> None:
    disk = pod.directory / "private" / "vmi-disks" / "data" / "disk.img"
    found = subprocess.run(["e2fsck", "-fn", disk], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def runs(pod: LauncherPod) -> bool:
    """Whether the guest runs, by a launcher that may just have been killed."""
    try:
        return bool(pod.call("GetDomain").state == m.DOMAIN_STATE_RUNNING)
    except grpc.RpcError:
        return False


def taken(pod: LauncherPod) -> list[str]:
    return sorted(os.listdir(pod.directory / "private" / "vmi-disks" / MEMORY))


def test_a_guest_goes_on_from_the_moment_of_its_snapshot(tmp_path: Path, seed: Path, image: Path, saved: Saved) -> None:
    with a_pod(tmp_path / "pod", seed, image) as pod:
        status = resume(pod, saved)
        assert status.state == m.DOMAIN_STATE_RUNNING, status
        assert_goes_on(pod, saved)
        wait_until(lambda: "the guest's clock is set" in pod.log, "the agent is told the time", seconds=60)
        assert taken(pod) == [f"resumed-{UID}"]
        assert (pod.directory / "private" / "vmi-disks" / MEMORY / f"resumed-{UID}").stat().st_size == 0
    # The run after it boots, from the disk as it is by then.
    with a_pod(tmp_path / "next", seed, image) as other:
        shutil.copytree(pod.directory / "private" / "vmi-disks", other.directory / "private" / "vmi-disks")
        for path in (other.directory / "private" / "vmi-disks").rglob("*"):
            os.chown(path, QEMU_USER, QEMU_USER)
        assert ask_to_resume(other, a_vmi(other)).state == m.DOMAIN_STATE_RUNNING
        wait_until(lambda: in_guest(other, "echo up"), "the guest boots", seconds=60)
        assert in_guest(other, "cat /run/count 2>/dev/null || echo none").strip() == "none"


@pytest.mark.parametrize("step", ["before the load", "before the mark", "after the mark", "after the resume"])
def test_memory_is_resumed_once_whenever_the_launcher_is_killed(
    step: str, tmp_path: Path, seed: Path, image: Path, saved: Saved
) -> None:
    spoil = tmp_path / "pod" / "public" / "spoil"
    spoil.mkdir(parents=True)
    (spoil / "sitecustomize.py").write_text(KILLER.replace("{step}", step))
    with a_pod(tmp_path / "pod", seed, image, "export PYTHONPATH=/run/kubevirt/spoil") as pod:
        with pytest.raises(grpc.RpcError):
            resume(pod, saved)
        if step in ("after the mark", "after the resume"):
            wait_until(lambda: runs(pod), "the guest runs", seconds=60)
            assert_goes_on(pod, saved)
            assert taken(pod) == [f"resumed-{UID}"]
            return
        pod.wait_exit()
        said = "QEMU ended by itself" if step == "before the load" else "killed before the guest went on"
        assert said in pod.final()["message"]
        assert taken(pod) == ["disk.img"]
    # Nothing has run: the next run goes on from there.
    with a_pod(tmp_path / "next", seed, image) as other:
        shutil.move(pod.directory / "private" / "vmi-disks", other.directory / "private" / "vmi-disks")
        assert ask_to_resume(other, a_vmi(other)).state == m.DOMAIN_STATE_RUNNING
        assert_goes_on(other, saved)


def test_memory_is_not_resumed_on_what_does_not_belong_to_it(
    tmp_path: Path, seed: Path, image: Path, saved: Saved
) -> None:
    with a_pod(tmp_path / "newer", seed, image) as pod:
        claim(pod, MEMORY, saved.memory)
        disk = claim(pod, "data", saved.data)
        os.utime(disk, ns=((pod.directory / "private/vmi-disks" / MEMORY / "disk.img").stat().st_mtime_ns + 1,) * 2)
        status = ask_to_resume(pod, a_vmi(pod))
        assert (status.state, status.reason) == (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_FAILED), status
        assert "was written after the memory" in status.message
        assert pod.qemu_pids() == []
    larger = a_vmi(pod)
    larger["spec"]["domain"]["memory"]["guest"] = "256Mi"
    assert "memory" in refusal(tmp_path / "larger", seed, image, saved, larger)
    fewer = a_vmi(pod)
    del fewer["spec"]["domain"]["devices"]["disks"][1]
    assert "kvedge.io/resume-memory" in refusal(tmp_path / "fewer", seed, image, saved, fewer)
    damaged = tmp_path / "damaged"
    shutil.copyfile(saved.memory, damaged)
    os.truncate(damaged, 8 << 20)
    vmi = a_vmi(pod)
    assert refusal(tmp_path / "cut", seed, image, saved._replace(memory=damaged), vmi)
    damaged.write_bytes(b"no memory at all" * 4096)
    assert refusal(tmp_path / "other", seed, image, saved._replace(memory=damaged), vmi)


def refusal(directory: Path, seed: Path, image: Path, saved: Saved, vmi: dict[str, Any]) -> str:
    """Why a guest did not start from this memory; it did not boot either, and the memory is still there."""
    with a_pod(directory, seed, image) as pod:
        status = resume(pod, saved, vmi)
        assert (status.state, status.reason) == (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_FAILED), status
        assert pod.qemu_pids() == []
        assert taken(pod) == ["disk.img"]
        return str(status.message)


@pytest.mark.parametrize("looks_first", [True, False], ids=["before it stands", "in the middle"])
def test_a_guest_goes_on_whose_memory_finds_no_room(looks_first: bool, tmp_path: Path, seed: Path, image: Path) -> None:
    if not looks_first:
        spoil = tmp_path / "pod" / "public" / "spoil"
        spoil.mkdir(parents=True)
        change = "module.check_room = lambda *_: None"
        (spoil / "sitecustomize.py").write_text(
            HOOK.replace("{module}", "kvedge.launcher.copies.disk_copies").replace("{change}", change)
        )
    there = "/run/kubevirt/hotplug-disks"
    before = "export PYTHONPATH=/run/kubevirt/spoil; mkdir -p /run/small"
    before += "; mount -t tmpfs -o size=8M,uid=107 small /run/small; touch /run/small/full; chown 107 /run/small/full"
    before += f"; mkdir -p {there}; touch {there}/full-memory.img; mount --bind /run/small/full {there}/full-memory.img"
    with launcher_pod(tmp_path / "pod", seed=seed, images={"kernel-boot": image}, before=before) as pod:
        start_counting(pod)
        place(pod, "full-data")
        job = save(pod, "full")
        assert job.state == m.DISK_COPY_FAILED
        assert ("are free on its claim" in job.message) is looks_first, job.message
        counts_on(pod)
        assert pod.call("GetDomain").state == m.DOMAIN_STATE_RUNNING
        # And the next one is made as ever.
        place(pod, "next-memory"), place(pod, "next-data")
        assert save(pod, "next").state == m.DISK_COPY_COMPLETE


def assert_a_paused_guest_stays_paused(pod: LauncherPod) -> None:
    pod.call("Pause")
    place(pod, "four-memory"), place(pod, "four-data")
    job = save(pod, "four")
    assert (job.state, job.quiesce, job.stood_ms) == (m.DISK_COPY_COMPLETE, "Paused", 0)
    assert pod.call("GetDomain").state == m.DOMAIN_STATE_PAUSED
    pod.call("Unpause")
    counts_on(pod)


def assert_a_killed_launcher_lets_it_go_on(pod: LauncherPod) -> None:
    place(pod, "two-memory"), place(pod, "two-data")
    begin(pod, "two")
    wait_until(lambda: pod.call("GetDomain").reason == m.DOMAIN_REASON_DUMP, "the guest stands", seconds=20, pause=0.02)
    with pytest.raises(grpc.RpcError):
        pod.call("Unpause")
    kill(pod.launcher_pid())
    job = ended(pod, "two")
    assert job.state == m.DISK_COPY_FAILED
    assert "started again" in job.message
    wait_until(lambda: runs(pod), "the guest runs", seconds=60)
    counts_on(pod)
    # And the next one is made as ever.
    place(pod, "three-memory"), place(pod, "three-data")
    assert save(pod, "three").state == m.DISK_COPY_COMPLETE
    counts_on(pod)
