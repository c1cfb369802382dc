"""Containers without a Pod around them, for tests; every one of them is ended with its test."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kvedge.runtime.linux.boot import read_boot_id
from kvedge.standalone.agent.container.container_files import ContainerFiles, PodFiles
from kvedge.standalone.agent.container.container_spec import ContainerSpec, MountSpec, StartedRecord
from kvedge.standalone.agent.container.container_start import ContainerStarter
from kvedge.standalone.agent.container.container_state import (
    ContainerState,
    Ended,
    ExitRecord,
    Running,
    Starting,
    container_state,
    signal_container,
)
from tests.support.waiting import wait_until


class Containers:
    """One Pod directory and the starter."""

    def __init__(self, path: Path, tree: Path) -> None:
        self.files = PodFiles(path / "pod")
        self.boot = read_boot_id()
        self.starter = ContainerStarter()
        self._tree = tree
        self._specs: list[ContainerSpec] = []

    def spec(self, name: str, script: str, **changes: Any) -> ContainerSpec:
        """A container that runs a shell script as user 107."""
        files = self.files.container(name)
        for folder in (files.record.parent, files.stage, files.log.parent):
            folder.mkdir(parents=True, exist_ok=True)
        made: ContainerSpec = {
            "id": f"pod/{name}",
            "record": str(files.record),
            "lock": str(files.lock),
            "log": str(files.log),
            "answer": str(files.answer),
            "stage": str(files.stage),
            "cgroups": [],
            "netns": "",
            "hostname": "guest",
            "root": str(self._tree),
            "writable_bytes": 16 << 20,
            "mounts": [],
            "devices": [],
            "uid": 107,
            "gid": 107,
            "groups": [107],
            "capabilities": [],
            "no_new_privileges": True,
            "seccomp": True,
            "oom_score_adj": 500,
            "sysctls": {},
            "argv": ["sh", "-c", script],
            "env": {"PATH": "/bin"},
            "working_dir": "/",
        }
        made.update(changes)  # type: ignore[typeddict-item]
        self._specs.append(made)
        return made

    def start(self, name: str, script: str, **changes: Any) -> ContainerFiles:
        """Start it."""
        self.starter.start(self.spec(name, script, **changes))
        return self.files.container(name)

    def run(self, name: str, script: str, **changes: Any) -> tuple[ExitRecord, str]:
        """Start it and wait for its end: how it ended, and what it said."""
        files = self.start(name, script, **changes)
        return self.ended(files), files.log.read_text()

    def state(self, files: ContainerFiles) -> ContainerState:
        """What it is doing."""
        return container_state(files, self.boot)

    def ended(self, files: ContainerFiles) -> ExitRecord:
        """How it ended, once it has."""
        state = wait_until(lambda: (found := self.state(files)) and isinstance(found, Ended) and found, "its end")
        assert isinstance(state, Ended)
        return state.exit

    def record(self, files: ContainerFiles) -> StartedRecord:
        """What its starter wrote."""
        found: StartedRecord = json.loads(files.record.read_text())
        return found

    def close(self) -> None:
        """Kill what is left."""
        self.starter.stop()
        for spec in self._specs:
            files = self.files.container(spec["id"].partition("/")[2])
            signal_container(files, signal.SIGKILL, self.boot)
            wait_until(lambda at=files: not isinstance(self.state(at), (Running, Starting)), "its end")


@contextmanager
def containers(path: Path, tree: Path) -> Iterator[Containers]:
    """For the duration of a test."""
    made = Containers(path, tree)
    try:
        yield made
    finally:
        made.close()


def mount(source: Path | str, target: str, **changes: Any) -> MountSpec:
    """One volume mount."""
    made: MountSpec = {
        "source": str(source),
        "sub_path": "",
        "target": target,
        "read_only": False,
        "follow_host": False,
    }
    made.update(changes)  # type: ignore[typeddict-item]
    return made


def status_of(pid: int) -> Mapping[str, str]:
    """/proc/<pid>/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return status_of(pid)["State"][0] not in "ZX"
    return False


def host_mounts(below: Path) -> list[str]:
    """What the host's mount table has of a directory."""
    return [line for line in Path(f"/proc/{os.getpid()}/mountinfo").read_text().splitlines() if str(below) in line]
