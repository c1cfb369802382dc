"""Shutting the guests of one box down with their host, whatever goes wrong with one of them."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kvedge.handler.guest.last_word import HOST_SHUTDOWN_MESSAGE
from kvedge.runtime.durable_files import write_whole
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.standalone.agent import host_shutdown
from kvedge.standalone.agent.container.container_files import ContainerFiles, PodFiles
from kvedge.standalone.agent.container.container_state import ExitRecord
from kvedge.standalone.agent.host_shutdown import shut_down_pods
from kvedge.standalone.agent.pod.pod_record import PodRecord, write_pod_record

UIDS = {name: f"0000000{number}-1111-2222-3333-444444444444" for number, name in enumerate(("db", "web"))}
FULL = OSError(errno.ENOSPC, "No space left on device")


class Box:
    """Pods of one box, each with a container that is a process of this test."""

    def __init__(self, kubelet: Path) -> None:
        self.kubelet = kubelet
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def files(self, name: str) -> PodFiles:
        """Those of a Pod."""
        return PodFiles(self.kubelet / "pods" / UIDS[name])

    def add(self, name: str) -> None:
        """A Pod whose container ends when it is told to."""
        code = "import signal\nprint(flush=True)\nsignal.pause()"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        self.processes[name] = process
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        files = self.files(name)
        pod = {"metadata": {"name": name, "namespace": "shop", "uid": UIDS[name]}}
        write_pod_record(files, PodRecord(pod=pod))  # type: ignore[arg-type]
        record = {
            "boot_id": read_boot_id(),
            "pid": process.pid,
            "start_time": int(fields[19]),
            "holder": 0,
            "holder_start_time": 0,
            "started_at": 1.0,
            "failed": "",
        }
        files.container("compute").record.parent.mkdir(parents=True)
        files.container("compute").record.write_text(json.dumps(record))
        (self.kubelet / "pods" / UIDS[name] / "volumes/kubernetes.io~empty-dir/public").mkdir(parents=True)

    def exit(self, name: str) -> dict[str, object]:
        """How its container is said to have ended."""
        found: dict[str, object] = json.loads(self.files(name).container("compute").exit.read_bytes())
        return found

    def last_word(self, name: str) -> str:
        """Why its guest is said to have ended."""
        public = self.files(name).volume("empty-dir", "public")
        return str(json.loads((public / "final.json").read_text())["message"])


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path)
    for name in UIDS:
        found.add(name)
    yield found
    for process in found.processes.values():
        process.kill()
        process.communicate()


def test_all_end_at_once_and_have_failed_by_their_hosts_end(box: Box) -> None:
    told: list[str] = []
    assert shut_down_pods(box.kubelet, 20.0, told.append) == []
    assert told[:2] == ["shutting down shop/db", "shutting down shop/web"]
    assert sorted(told[2:]) == ["shop/db is down", "shop/web is down"]
    for name in UIDS:
        assert (box.exit(name)["exit_code"], box.exit(name)["reason"]) == (143, "Terminated")
        assert (box.exit(name)["message"], box.last_word(name)) == (HOST_SHUTDOWN_MESSAGE, HOST_SHUTDOWN_MESSAGE)


def test_a_full_disk_keeps_nobody_from_being_shut_down(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    def record(files: ContainerFiles, exit_record: ExitRecord) -> None:
        if files.pod.name == UIDS["db"]:
            raise FULL
        write_whole(files.exit, msgspec.json.encode(exit_record))

    monkeypatch.setattr(host_shutdown, "record_exit", record)
    told: list[str] = []
    assert shut_down_pods(box.kubelet, 20.0, told.append) == []
    assert [process.wait(0) for process in box.processes.values()] == [-signal.SIGTERM] * 2
    assert "shop/db is down, and how cannot be recorded: No space left on device" in told
    assert "shop/web is down" in told
    # What can be said of it is.
    assert (box.last_word("db"), box.last_word("web")) == (HOST_SHUTDOWN_MESSAGE, HOST_SHUTDOWN_MESSAGE)
    assert box.exit("web")["reason"] == "Terminated"


def test_one_whose_record_is_damaged_is_shut_down_and_keeps_no_other_from_it(box: Box) -> None:
    box.files("db").record.write_bytes(b"{")
    told: list[str] = []
    assert shut_down_pods(box.kubelet, 20.0, told.append) == []
    assert [process.wait(0) for process in box.processes.values()] == [-signal.SIGTERM] * 2
    assert f"{UIDS['db']}/pod.json is damaged" in told[0]
    assert {f"{UIDS['db']} is down", "shop/web is down"}.issubset(told)


def test_one_that_cannot_be_told_to_end_keeps_no_other_from_it(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = host_shutdown.signal_container

    def refuse(files: ContainerFiles, number: signal.Signals, boot_id: str) -> bool:
        if files.pod.name == UIDS["db"]:
            box.processes["db"].kill()
            raise FULL
        return ask(files, number, boot_id)

    monkeypatch.setattr(host_shutdown, "signal_container", refuse)
    told: list[str] = []
    assert shut_down_pods(box.kubelet, 20.0, told.append) == []
    assert told[:2] == [
        "shutting down shop/db, which cannot be told: No space left on device",
        "shutting down shop/web",
    ]
    assert box.processes["web"].wait(0) == -signal.SIGTERM
    assert box.exit("db")["reason"] == "Terminated"


def test_one_that_cannot_be_ended_is_given_up(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_shutdown, "signal_container", lambda *_: False)
    monkeypatch.setattr(host_shutdown, "_KILL_SECONDS", 0.0)
    told: list[str] = []
    assert shut_down_pods(box.kubelet, 0.0, told.append) == ["shop/db", "shop/web"]
    assert "shop/web does not shut down in its time and is killed" in told
    assert "shop/web does not end, and is left to the host" in told
