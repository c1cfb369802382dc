"""Killing and restarting the agent at bad moments: containers run on, are adopted, and never run twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.types.cluster import IpAddress
from kvedge.resources.types.core import HostPathVolume, Pod, PodVolume
from tests.machine.agent.box import Box, box, marks, shell_pod
from tests.machine.agent.containers import is_alive
from tests.support.waiting import wait_until


@pytest.fixture
def made(tmp_path: Path, busybox: Path) -> Iterator[Box]:
    (tmp_path / "data").mkdir()
    with box(tmp_path / "data", busybox, "10.243.19.0/24") as one:
        yield one
    assert marks(one.config) == []


def _counted(name: str, folder: Path, script: str = "while true; do sleep 0.1; done") -> Pod:
    """A Pod that leaves a line for each time it is started."""
    counting = PodVolume(name="data", host_path=HostPathVolume(path=str(folder), type="Directory"))
    return shell_pod(name, f"echo started >> /data/{name}; {script}", volumes=[counting])


def _starts(name: str, folder: Path) -> int:
    path = folder / name
    return path.read_text().count("started") if path.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_container_outlives_its_agent_and_is_taken_up_again(made: Box, number: signal.Signals) -> None:
    made.start_agent()
    made.create("lives", "trap 'exit 5' TERM; while true; do sleep 0.1; done")
    before = made.in_phase("lives", "Running")
    pid = made.pid(before)
    made.stop_agent(number)
    assert is_alive(pid)

    made.start_agent()
    made.client.delete(Pod, "default", "lives", grace_seconds=10)
    made.wait_gone("lives")

    assert not is_alive(pid)


def test_a_container_reads_the_name_servers_that_the_next_agent_writes(made: Box) -> None:
    made.start_agent()
    dns = {"dns_policy": "None", "dns_config": {"nameservers": ["203.0.113.7"]}}
    pod = made.client.create(shell_pod("asks", "trap 'exit 0' TERM; while true; do sleep 0.1; done", **dns))
    inside = Path(f"/proc/{made.pid(made.in_phase('asks', 'Running'))}/root/etc/resolv.conf")
    assert inside.read_text() == "nameserver 203.0.113.7\n"
    made.stop_agent()
    made.files(pod).resolv.write_text("nameserver 203.0.113.99\n")
    assert inside.read_text() == "nameserver 203.0.113.99\n"

    made.start_agent()
    wait_until(lambda: inside.read_text() == "nameserver 203.0.113.7\n", "the new name server in the container")


def test_an_adopted_pod_is_left_exactly_as_it_was(made: Box, tmp_path: Path) -> None:
    made.start_agent()
    made.client.create(_counted("same", tmp_path))
    before = made.in_phase("same", "Running")
    wait_until(lambda: _starts("same", tmp_path) == 1, "its start")
    made.stop_agent(signal.SIGKILL)
    made.start_agent()
    # The agent has gone through its Pods once when a new one runs.
    made.create("marker", "sleep 1000")
    made.in_phase("marker", "Running")
    after = made.pod("same")

    assert after is not None
    assert after.status == before.status
    assert after.metadata.resource_version == before.metadata.resource_version
    assert _starts("same", tmp_path) == 1


def test_an_exit_that_happened_without_an_agent_is_told_by_the_next_one(made: Box) -> None:
    made.start_agent()
    made.create("quits", "while [ ! -e /data/go ]; do sleep 0.05; done; exit 42")
    pod = made.in_phase("quits", "Running")
    pid = made.pid(pod)
    made.stop_agent(signal.SIGKILL)
    (made.files(pod).volume("empty-dir", "data") / "go").touch()
    wait_until(lambda: not is_alive(pid), "its end")

    made.start_agent()
    status = made.in_phase("quits", "Failed").status.container_statuses[0]

    assert status.state is not None
    assert status.state.terminated is not None
    assert status.state.terminated.exit_code == 42


def test_a_pod_deleted_without_an_agent_is_ended_by_the_next_one(made: Box) -> None:
    made.start_agent()
    made.create("unwanted", "sleep 1000")
    pod = made.in_phase("unwanted", "Running")
    pid = made.pid(pod)
    made.stop_agent(signal.SIGKILL)
    made.client.delete(Pod, "default", "unwanted", grace_seconds=0)
    assert made.pod("unwanted") is None
    assert is_alive(pid)

    made.start_agent()

    wait_until(lambda: not made.files(pod).path.exists(), "its remains are gone")
    assert not is_alive(pid)
    assert not made.files(pod).kept.exists()


@pytest.mark.parametrize("lose", [Box.damage_store, Box.empty_store], ids=["put back", "new"])
@pytest.mark.parametrize("runs", [True, False], ids=["agent runs", "agent away"])
def test_a_pod_that_the_store_has_forgotten_ends_in_order_and_leaves_its_data(
    made: Box, lose: Callable[[Box], None], runs: bool
) -> None:
    made.start_agent()
    # Longer than one that is deleted by force has.
    script = "trap 'sleep 4; echo bye > /data/disk; exit 0' TERM; echo there; while true; do sleep 0.1; done"
    made.create("forgotten", script, termination_grace_period_seconds=30)
    pod = made.in_phase("forgotten", "Running")
    wait_until(lambda: "there" in made.said(pod), "its trap")
    if not runs:
        made.stop_agent(signal.SIGKILL)
    lose(made)
    assert made.pod("forgotten") is None
    if not runs:
        made.start_agent()

    files = made.files(pod)
    wait_until(lambda: not files.path.exists(), "its remains are gone", 60)
    assert (files.kept / "data" / "disk").read_text() == "bye\n"
    assert json.loads((files.kept / "pod.json").read_text())["pod"]["metadata"]["name"] == "forgotten"
    assert f"rm -r {files.kept}" in made.log.read_text()


@pytest.mark.parametrize("left", ["whole", "empty", "none"])
def test_after_a_power_cut_a_pod_has_failed_and_is_not_started_in_the_middle(
    made: Box, tmp_path: Path, left: str
) -> None:
    """The boot's id is changed in the records, and they are left as a power cut may leave them."""
    made.start_agent()
    made.client.create(_counted("cut", tmp_path))
    pod = made.in_phase("cut", "Running")
    wait_until(lambda: _starts("cut", tmp_path) == 1, "its start")
    made.stop_agent(signal.SIGKILL)
    files = made.files(pod)
    started = json.loads(files.container("c").record.read_text())
    for pid in (started["pid"], started["holder"]):
        os.kill(pid, signal.SIGKILL)
    files.record.write_text(files.record.read_text().replace(started["boot_id"], "another"))
    if left == "whole":
        files.container("c").record.write_text(json.dumps({**started, "boot_id": "another"}))
    elif left == "empty":
        files.container("c").record.write_text("")
    else:
        files.container("c").record.unlink()

    made.start_agent()
    found = made.in_phase("cut", "Failed")

    state = found.status.container_statuses[0].state
    assert state is not None
    assert state.terminated is not None
    assert state.terminated.reason == "ContainerStatusUnknown"
    assert _starts("cut", tmp_path) == 1


def test_half_made_pods_of_a_killed_agent_are_swept(made: Box) -> None:
    without_record = made.config.pods / "11111111-2222-3333-4444-555555555555"
    (without_record / "volumes").mkdir(parents=True)

    made.start_agent()

    assert not without_record.exists()


def test_a_pod_whose_records_are_lost_is_not_started_again(made: Box, tmp_path: Path) -> None:
    made.start_agent()
    made.client.create(_counted("lost", tmp_path, "exit 0"))
    pod = made.client.get(Pod, "default", "lost")
    wait_until(lambda: _starts("lost", tmp_path) == 1, "its start")
    made.in_phase("lost", "Succeeded")
    # As after a backup of the store was restored: the Pod runs, says the API, but nothing here knows of it.
    made.stop_agent()
    shutil.rmtree(made.files(pod).path)
    running = {"phase": "Running", "containerStatuses": [_running_status()]}
    made.client.patch(Pod, "default", "lost", MergePatch({"status": running}), "status")

    made.start_agent()
    found = made.in_phase("lost", "Failed")

    assert _starts("lost", tmp_path) == 1
    state = found.status.container_statuses[0].state
    assert state is not None
    assert state.terminated is not None
    assert state.terminated.reason == "ContainerStatusUnknown"


def _running_status() -> dict[str, object]:
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {"name": "c", "ready": True, "restartCount": 0, "image": "busybox", "imageID": "", "state": running}


@pytest.mark.timeout(600)
def test_killing_the_agent_at_any_moment_of_a_start_never_starts_a_pod_twice(made: Box, tmp_path: Path) -> None:
    """The delays go over everything from before the binding to after the command runs, in steps of 8 ms."""
    for number in range(11):
        name = f"kill-{number}"
        made.start_agent()
        made.client.create(_counted(name, tmp_path))
        time.sleep(number * 0.008)
        made.stop_agent(signal.SIGKILL)
        made.start_agent()
        pod = made.in_phase(name, "Running")
        wait_until(lambda name=name: _starts(name, tmp_path) == 1, "one start")
        assert _alive_in(made, pod) >= 1
        made.client.delete(Pod, "default", name, grace_seconds=0)
        wait_until(lambda pod=pod: not made.files(pod).path.exists(), "its end")
        assert _starts(name, tmp_path) == 1
        made.stop_agent(signal.SIGKILL)


@pytest.mark.timeout(600)
def test_killing_the_agent_at_any_moment_of_an_end_leaves_nothing(made: Box, tmp_path: Path) -> None:
    for number in range(6):
        name = f"end-{number}"
        made.start_agent()
        made.client.create(_counted(name, tmp_path, "trap 'exit 0' TERM; while true; do sleep 0.02; done"))
        pod = made.in_phase(name, "Running")
        made.client.delete(Pod, "default", name, grace_seconds=5)
        time.sleep(number * 0.013)
        made.stop_agent(signal.SIGKILL)
        made.start_agent()
        made.wait_gone(name)
        wait_until(lambda pod=pod: not made.files(pod).path.exists(), "its directory is gone")
        assert _starts(name, tmp_path) == 1
        assert [entry for entry in os.listdir("/run/netns") if pod.metadata.uid in entry] == []
        made.stop_agent(signal.SIGKILL)
    assert list((made.store.root / "users").glob("*/*")) == []


def _alive_in(made: Box, pod: Pod) -> int:
    """How many of a Pod's first processes live, by what its record says."""
    record = json.loads(made.files(pod).container("c").record.read_text())
    return int(is_alive(record["pid"]))


def test_addresses_are_recorded_where_kubectl_shows_them_and_survive_the_agent(made: Box) -> None:
    made.start_agent()
    made.create("addressed", "sleep 1000")
    pod = made.in_phase("addressed", "Running")
    made.stop_agent(signal.SIGKILL)
    made.start_agent()
    made.create("other", "sleep 1000")
    other = made.in_phase("other", "Running")

    assert pod.status.pod_ip != other.status.pod_ip
    assert {item.metadata.name for item in made.client.list(IpAddress)} == {pod.status.pod_ip, other.status.pod_ip}
