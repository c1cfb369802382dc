"""A guest's memory is saved with its disks at one moment, and another Pod's guest goes on from there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.agent_guest import agent_image, agent_vmi, in_guest
from tests.support.launcher_pod import QEMU_USER, LauncherPod, guest_interface, kill, launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine
RAM = 192 << 20
ENDED = (m.DISK_COPY_COMPLETE, m.DISK_COPY_FAILED)
# /run is memory.
COUNT = (
    "setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >/run/count; usleep 20000; done' </dev/null >/dev/null 2>&1 &"
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent_image(tmp_path_factory.mktemp("image"))


@contextlib.contextmanager
def a_pod(directory: Path, seed: Path, image: Path) -> Iterator[LauncherPod]:
    with launcher_pod(directory, seed=seed, images={"kernel-boot": image}) as started:
        (started.directory / "public" / "hotplug-disks").mkdir(mode=0o755)
        yield started


def place(pod: LauncherPod, name: str) -> Path:
    """A file as the handler puts it into the Pod."""
    path = pod.directory / "public" / "hotplug-disks" / f"{name}.img"
    path.write_bytes(b"")
    path.chmod(0o600)
    os.chown(path, QEMU_USER, QEMU_USER)
    return path


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


def resume(pod: LauncherPod, memory: Path, vmi: dict[str, Any]) -> Any:
    """The status after a start from this memory."""
    shutil.copyfile(memory, place(pod, "memory"))
    request = m.SyncRequest(
        vmi_json=json.dumps(vmi).encode(),
        interfaces=[guest_interface()],
        options=m.NodeOptions(emulation=True),
        memory_bytes=RAM,
        resume="memory",
    )
    return pod.call("Sync", request, 90)


def place_of_disk(pod: LauncherPod) -> Path:
    """Where the emptyDisk is, below the Pod's directory."""
    (found,) = (each for each in pod.directory.rglob("data.qcow2") if each.is_file())
    return found.relative_to(pod.directory)


def put_disk(pod: LauncherPod, at: Path, image: Path) -> None:
    """Have the guest's emptyDisk be this image."""
    target = pod.directory / at
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", image, target], check=True)
    for each in (target.parent, target):
        os.chown(each, QEMU_USER, QEMU_USER)


def test_a_guest_goes_on_from_the_moment_of_its_snapshot(tmp_path: Path, seed: Path, image: Path) -> None:
    with a_pod(tmp_path / "first", seed, image) as pod:
        pod.sync(agent_vmi(pod), network=True)
        wait_until(lambda: pod.call("GetDomain").guest.os_id, "what the agent says", seconds=60, pause=0.1)
        in_guest(pod, COUNT)
        wait_until(lambda: count(pod) > 3, "the guest counts", seconds=30)
        in_guest(pod, "echo before >/data/word; sync")
        memory, data = place(pod, "one-memory"), place(pod, "one-data")
        before = count(pod)
        job = save(pod, "one")
        assert (job.state, job.message, job.quiesce) == (m.DISK_COPY_COMPLETE, "", "")
        assert job.stood_ms > 0
        assert (memory.stat().st_mode & 0o777, memory.stat().st_uid) == (0o600, QEMU_USER)
        assert pod.call("GetDomain").state == m.DOMAIN_STATE_RUNNING
        in_guest(pod, "echo after >/data/word; sync; echo 1000000 >/run/mark")
        counts_on(pod)
        kept = tmp_path / "kept"
        kept.mkdir()
        shutil.copyfile(memory, kept / "memory")
        shutil.copyfile(data, kept / "data")
        vmi, at = agent_vmi(pod), place_of_disk(pod)
        assert_a_killed_launcher_lets_it_go_on(pod)
    with a_pod(tmp_path / "second", seed, image) as pod:
        put_disk(pod, at, kept / "data")
        status = resume(pod, kept / "memory", vmi)
        assert status.state == m.DOMAIN_STATE_RUNNING, status
        wait_until(lambda: in_guest(pod, "cat /run/count"), "the guest answers", seconds=30)
        assert before <= counts_on(pod)
        assert in_guest(pod, "cat /run/mark 2>/dev/null || echo none").strip() == "none"
        # Read from the disk, and not from what the guest had cached.
        in_guest(pod, "sync; echo 3 >/proc/sys/vm/drop_caches")
        assert in_guest(pod, "cat /data/word").strip() == "before"
    larger = agent_vmi(pod)
    larger["spec"]["domain"]["memory"]["guest"] = "256Mi"
    assert "memory" in refusal(tmp_path / "larger", seed, image, kept / "memory", larger)
    damaged = kept / "damaged"
    shutil.copyfile(kept / "memory", damaged)
    os.truncate(damaged, 8 << 20)
    assert refusal(tmp_path / "damaged", seed, image, damaged, vmi)
    damaged.write_bytes(b"no memory at all" * 4096)
    assert refusal(tmp_path / "other", seed, image, damaged, vmi)


def refusal(directory: Path, seed: Path, image: Path, memory: Path, vmi: dict[str, Any]) -> str:
    """Why a guest did not start from this memory; it did not boot either."""
    with a_pod(directory, seed, image) as pod:
        status = resume(pod, memory, vmi)
        assert (status.state, status.reason) == (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_FAILED), status
        assert pod.qemu_pids() == []
        return str(status.message)


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
    pod.wait_state(m.DOMAIN_STATE_RUNNING, 60)
    counts_on(pod)
    # And the next one is made as ever.
    place(pod, "three-memory"), place(pod, "three-data")
    assert save(pod, "three").state == m.DISK_COPY_COMPLETE
    counts_on(pod)
