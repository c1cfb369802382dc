"""Pods whose records are damaged: the others go on, what runs is taken up as it is, and nothing runs twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.core import HostPathVolume, Node, Pod, PodVolume
from kvedge.standalone.agent.agent_removal import remove_everything
from tests.machine.agent.box import NODE, Box, box, marks, shell_pod
from tests.machine.agent.containers import is_alive
from tests.support.damages import DAMAGES, Damage
from tests.support.waiting import wait_until


@pytest.fixture
def made(tmp_path: Path, busybox: Path) -> Iterator[Box]:
    (tmp_path / "data").mkdir()
    with box(tmp_path / "data", busybox, "10.243.29.0/24") as one:
        yield one
    assert marks(one.config) == []


# The file may also be lost.
_LOST: dict[str, Damage] = {**DAMAGES, "gone": Path.unlink}

_LIVES = "trap 'exit 5' TERM; while true; do sleep 0.1; done"


def _counted(name: str, folder: Path) -> Pod:
    """A Pod that leaves a line for each time it is started."""
    counting = PodVolume(name="data", host_path=HostPathVolume(path=str(folder), type="Directory"))
    return shell_pod(name, f"echo started >> /data/{name}; {_LIVES}", volumes=[counting])


def _ready_message(made: Box) -> str:
    conditions = made.client.get(Node, "", NODE).status.conditions
    return next(str(item["message"]) for item in conditions if item["type"] == "Ready")


@pytest.mark.parametrize("damage", _LOST.values(), ids=_LOST)
def test_what_runs_is_taken_up_as_it_is_and_told_of(made: Box, tmp_path: Path, damage: Damage) -> None:
    made.start_agent()
    made.client.create(_counted("same", tmp_path))
    made.create("other", _LIVES)
    before, other = made.in_phase("same", "Running"), made.in_phase("other", "Running")
    pid = made.pid(before)
    wait_until(lambda: (tmp_path / "same").exists(), "its start")
    made.stop_agent(signal.SIGKILL)
    damage(made.files(before).record)

    made.start_agent()
    made.create("marker", _LIVES)
    made.in_phase("marker", "Running")
    after = made.in_phase("same", "Running")
    assert (made.pid(after), after.status.pod_ip) == (pid, before.status.pod_ip)
    assert made.pid(made.in_phase("other", "Running"))
    assert made.in_phase("other", "Running").metadata.uid == other.metadata.uid
    assert (tmp_path / "same").read_text().count("started") == 1
    assert str(made.files(before).record) in made.log.read_text()
    wait_until(lambda: str(made.files(before).record) in _ready_message(made), "the condition")
    wait_until(lambda: [reason for reason, _ in made.events("same") if reason == "DamagedRecord"], "the event")
    # The next agent finds a good record, and ends the Pod as any other.
    made.stop_agent(signal.SIGKILL)
    made.start_agent()
    made.client.delete(Pod, "default", "same", grace_seconds=10)
    made.wait_gone("same")
    assert not is_alive(pid)


@pytest.mark.parametrize("damage", _LOST.values(), ids=_LOST)
def test_what_has_ended_meanwhile_is_not_started_again(made: Box, tmp_path: Path, damage: Damage) -> None:
    made.start_agent()
    made.client.create(_counted("over", tmp_path))
    before = made.in_phase("over", "Running")
    pid = made.pid(before)
    wait_until(lambda: (tmp_path / "over").exists(), "its start")
    made.stop_agent(signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "its end")
    damage(made.files(before).record)

    made.start_agent()
    made.in_phase("over", "Failed")
    made.create("marker", _LIVES)
    made.in_phase("marker", "Running")
    assert (tmp_path / "over").read_text().count("started") == 1


@pytest.mark.parametrize("damage", [DAMAGES["cut in half"], _LOST["gone"]], ids=["cut in half", "gone"])
def test_what_the_api_does_not_have_either_is_shut_down_and_its_data_kept(made: Box, damage: Damage) -> None:
    made.start_agent()
    pod = made.create("lost", f"echo kept > /data/file; {_LIVES}")
    before = made.in_phase("lost", "Running")
    pid, files = made.pid(before), made.files(before)
    wait_until(lambda: any((files.path / "volumes").rglob("file")), "its data")
    made.stop_agent(signal.SIGKILL)
    made.client.delete(Pod, "default", "lost", grace_seconds=0)
    wait_until(lambda: made.pod("lost") is None, "its object is gone")
    damage(files.record)

    made.start_agent()
    wait_until(lambda: not is_alive(pid), "its end")
    wait_until(lambda: not files.path.exists(), "its directory is gone")
    assert [path.read_text() for path in files.kept.rglob("file")] == ["kept\n"]
    wait_until(lambda: "the API has no such pod" in _ready_message(made), "the condition")
    assert pod.metadata.uid in made.log.read_text()
    made.create("marker", _LIVES)
    made.in_phase("marker", "Running")


def test_everything_can_be_removed_with_a_damaged_record(made: Box) -> None:
    made.start_agent()
    made.create("stays", _LIVES)
    before = made.in_phase("stays", "Running")
    pid = made.pid(before)
    made.stop_agent(signal.SIGKILL)
    made.files(before).record.write_bytes(b"{")
    remove_everything(made.config, grace=2)
    assert not is_alive(pid)
    assert not made.files(before).path.exists()
