"""The agent on a host that has trouble of its own: a full disk, a damaged store, an API that is away."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.core import EmptyDirVolume, Pod, PodVolume
from tests.machine.agent.box import Box, box, marks
from tests.machine.agent.containers import is_alive
from tests.support.waiting import wait_until


@pytest.fixture
def made(tmp_path: Path, busybox: Path) -> Iterator[Box]:
    (tmp_path / "data").mkdir()
    with box(tmp_path / "data", busybox, "10.243.21.0/24") as one:
        yield one
    assert marks(one.config) == []


def _event(made: Box, name: str, words: str) -> bool:
    return any(words in text for _, text in made.events(name))


def test_a_full_disk_is_said_at_the_pod_and_it_runs_once_there_is_space(made: Box) -> None:
    made.config.pods.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(made.config.pods)], check=True)
    try:
        filler = made.config.pods / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(1 << 20))
        made.start_agent()
        made.create("crowded", "sleep 1000")
        wait_until(lambda: _event(made, "crowded", "No space left on device"), "an event")
        pod = made.pod("crowded")
        assert pod is not None
        assert pod.status.phase == "Pending"

        filler.unlink()
        made.in_phase("crowded", "Running")
        made.client.delete(Pod, "default", "crowded", grace_seconds=1)
        made.wait_gone("crowded")
        made.stop_agent()
    finally:
        made.stop_agent(signal.SIGKILL)
        subprocess.run(["umount", str(made.config.pods)], check=True)


def test_a_pod_in_the_host_s_network_sees_the_host_s_links(made: Box) -> None:
    made.start_agent()
    made.create("host", "ls /sys/class/net; hostname; sleep 1000", host_network=True)
    pod = made.in_phase("host", "Running")
    wait_until(lambda: made.said(pod), "its words")

    assert made.config.instance in made.said(pod).split()
    assert pod.status.pod_ip == pod.status.host_ip


def test_containers_do_not_mind_an_api_that_goes_and_comes_back(made: Box) -> None:
    made.start_agent()
    made.create("steady", "trap 'exit 0' TERM; while true; do sleep 0.1; done")
    pod = made.in_phase("steady", "Running")
    pid = made.pid(pod)
    made.restart_api()
    assert is_alive(pid)
    made.create("later", "sleep 1000")

    made.in_phase("later", "Running")
    made.client.delete(Pod, "default", "steady", grace_seconds=5)
    made.wait_gone("steady", 60)
    assert not is_alive(pid)


def test_a_data_directory_with_odd_letters_works_like_any_other(tmp_path: Path, busybox: Path) -> None:
    data = tmp_path / "däta, with:odd=letters\\"
    data.mkdir()
    with box(data, busybox, "10.243.22.0/24") as one:
        one.start_agent()
        volumes = [PodVolume(name="data", empty_dir=EmptyDirVolume(medium="Memory"))]
        one.create("odd", "echo made > /data/file; sleep 1000", volumes=volumes)
        pod = one.in_phase("odd", "Running")
        made = one.files(pod).volume("empty-dir", "data") / "file"
        wait_until(made.exists, "its file")
        one.client.delete(Pod, "default", "odd", grace_seconds=1)
        one.wait_gone("odd")
        assert not one.files(pod).path.exists()
    assert marks(one.config) == []
