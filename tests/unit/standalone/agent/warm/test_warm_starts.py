# Tests: kvedge/standalone/agent/warm/warm_starts.py, kvedge/standalone/agent/warm/parent_process.py
# Tests: kvedge/standalone/agent/warm/warm_words.py
"""Parents that work, refuse, hang or die: a launcher starts in any case, once; parents are processes of this test."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from kvedge.runtime.program import program_command, program_directories
from kvedge.standalone.agent.container.container_spec import ContainerSpec
from kvedge.standalone.agent.container.container_start import ContainerStarter, ContainerStartError
from kvedge.standalone.agent.warm import parent_process
from kvedge.standalone.agent.warm.warm_starts import WarmStarts
from tests.support.waiting import wait_until

BEGIN = """
import json, os, socket, sys
agent = socket.socket(fileno=0)
def take():
    _, found, _, _ = socket.recv_fds(agent, 1, 1)
    if not found:
        sys.exit(0)
    return json.loads(os.pread(found[0], 9999, 0))
def answer(spec, **what):
    with open(spec["answer"], "w") as fifo:
        fifo.write(json.dumps(what))
with open(sys.argv[1], "a") as log:
    print(os.getpid(), file=log)
"""
WORKS = "agent.send(b'+')\nwhile True:\n    spec = take(); agent.send(b'+'); answer(spec, record={})"
BREAKS_OFF = "agent.send(b'+'); take(); agent.send(b'+')"
STALE = "agent.send(b'+'); take(); agent.send(b'-/usr/lib/x is not what it was')"
UNUSABLE = "agent.send(b'-no libvirt')"
SILENT = "take()"
HANGS = "agent.send(b'+'); take(); take()"
REFUSES = "agent.send(b'+')\nwhile True:\n    spec = take(); agent.send(b'+'); answer(spec, error='runs already')"


def launcher(name: str, directory: Path) -> ContainerSpec:
    """A container with this program's launcher."""
    argv = [*program_command(), "launcher", "--monitor"]
    paths = ["/usr", *program_directories()]
    mounts = [{"source": path, "target": path, "sub_path": "", "read_only": True} for path in paths]
    found = {"id": name, "argv": argv, "uid": 107, "env": {}, "mounts": mounts, "answer": str(directory / "answer")}
    return cast("ContainerSpec", found)


class Apart:
    """Counts what is started apart."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def start(self, spec: ContainerSpec) -> None:
        self.started.append(spec["id"])


class World:
    """A clock, the starts apart, and warm starts whose parents run a script."""

    def __init__(self, directory: Path, script: str) -> None:
        self.now = 100.0
        self.apart = Apart()
        self.directory = directory
        self.log = directory / "parents"
        command = [sys.executable, "-c", BEGIN + script, str(self.log)]
        self.warm = WarmStarts(cast("ContainerStarter", self.apart), command, lambda: self.now)

    def start(self, name: str, others: int = 2) -> None:
        self.warm.start(launcher(name, self.directory), others)

    @property
    def parents(self) -> list[int]:
        """Those that have ever begun."""
        return [int(word) for word in self.log.read_text().split()] if self.log.exists() else []


@contextlib.contextmanager
def world(directory: Path, script: str) -> Iterator[World]:
    made = World(directory, script)
    try:
        yield made
    finally:
        made.warm.stop()
    assert not any(is_there(pid) for pid in made.parents)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_the_third_launcher_and_those_after_it_are_copies_of_one_parent(tmp_path: Path) -> None:
    with world(tmp_path, WORKS) as made:
        for others in range(5):
            made.start(f"vm-{others}", others)

        assert made.apart.started == ["vm-0", "vm-1"]
        assert len(made.parents) == 1


def test_a_parent_that_is_there_serves_a_box_with_fewer_guests_too(tmp_path: Path) -> None:
    with world(tmp_path, WORKS) as made:
        made.start("vm-2")
        made.start("later", others=0)

        assert made.apart.started == []


def test_what_is_no_launcher_never_reaches_the_parent(tmp_path: Path) -> None:
    with world(tmp_path, WORKS) as made:
        made.warm.start(cast("ContainerSpec", {"id": "web", "argv": ["nginx"], "uid": 107, "env": {}}), 9)

        assert (made.apart.started, made.parents) == (["web"], [])


@pytest.mark.parametrize("script", [UNUSABLE, STALE, BREAKS_OFF, "", "sys.exit(3)"])
def test_a_launcher_starts_apart_when_its_parent_fails_and_the_next_one_has_another(
    tmp_path: Path, script: str
) -> None:
    with world(tmp_path, script) as made:
        made.start("vm-2")
        assert made.apart.started == ["vm-2"]
        made.start("too early")
        assert len(made.parents) == 1
        made.now += 2
        made.start("again")

        assert made.apart.started == ["vm-2", "too early", "again"]
        assert len(made.parents) == 2
        # The pause has doubled.
        made.now += 3
        made.start("too early again")
        assert len(made.parents) == 2


@pytest.mark.parametrize("script", [SILENT, HANGS], ids=["while it loads", "with an order"])
def test_a_parent_that_hangs_is_killed_before_the_launcher_starts_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(parent_process, "LOAD_SECONDS", 0.5)
    monkeypatch.setattr(parent_process, "TAKE_SECONDS", 0.1)
    with world(tmp_path, script) as made:
        made.start("vm-2")

        assert made.apart.started == ["vm-2"]
        wait_until(lambda: not any(is_there(pid) for pid in made.parents), "its end")


def test_an_order_is_handed_over_on_a_kernel_that_does_not_know_the_newest_kind_of_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent_process, "_MFD_NOEXEC_SEAL", 1 << 30)
    with world(tmp_path, WORKS) as made:
        made.start("vm-2")

        assert made.apart.started == []


def test_a_parent_that_was_killed_meanwhile_is_followed_by_another(tmp_path: Path) -> None:
    with world(tmp_path, WORKS) as made:
        made.start("vm-2")
        os.kill(made.parents[0], signal.SIGKILL)
        made.start("apart")
        made.now += 2
        made.start("vm-3")

        assert made.apart.started == ["apart"]
        assert len(made.parents) == 2


def test_a_container_that_cannot_be_started_is_no_fault_of_the_parent(tmp_path: Path) -> None:
    with world(tmp_path, REFUSES) as made:
        for name in ("vm-2", "vm-3"):
            with pytest.raises(ContainerStartError, match="runs already"):
                made.start(name)

        assert made.apart.started == []
        assert len(made.parents) == 1


def test_a_program_that_is_not_there_makes_no_parent(tmp_path: Path) -> None:
    apart = Apart()
    warm = WarmStarts(cast("ContainerStarter", apart), ["/nowhere"], lambda: 0.0)
    warm.start(launcher("vm", tmp_path), 2)

    assert apart.started == ["vm"]


def test_a_parent_ends_with_its_agent(tmp_path: Path) -> None:
    with world(tmp_path, WORKS) as made:
        made.start("vm-2")
        made.warm.stop()

        wait_until(lambda: not is_there(made.parents[0]), "its end")
