# Tests: kvedge/handler/usage/usage_keeper.py, kvedge/handler/usage/usage_files.py
"""Rings of guests: filled by looks, written to files, read by the next process, and never those of another VM."""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvedge.handler.launchers.launcher_connections import Key
from kvedge.handler.usage.usage_files import UsageFiles, ring_name
from kvedge.handler.usage.usage_keeper import WRITE_SECONDS, UsageKeeper
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.guest_history import CPUS
from kvedge.resources.usage.guest_stats import GuestStats

SECOND = 1_000_000_000


class Time:
    """A clock that the test turns."""

    def __init__(self) -> None:
        # Files have the time of this host.
        self.seconds = float(int(time.time()))

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


def vmi(name: str = "web", uid: str = "run-1", *, vm: str = "vm-1", namespace: str = "shop") -> VirtualMachineInstance:
    owner = OwnerReference(api_version="kubevirt.io/v1", kind="VirtualMachine", name=name, uid=vm, controller=True)
    metadata = ObjectMeta(name=name, namespace=namespace, uid=uid, owner_references=[owner] if vm else [])
    return VirtualMachineInstance(metadata=metadata)


class Node:
    """A node whose guests use one CPU each, unless they are hung."""

    def __init__(self, directory: Path) -> None:
        self.clock = Time()
        self.directory = directory
        self.guests = [vmi()]
        self.hung: set[str] = set()
        self.keeper = self.start_again()

    def start_again(self) -> UsageKeeper:
        self.keeper = UsageKeeper(self._look, self._find, UsageFiles(self.directory), self.clock)
        return self.keeper

    def _look(self) -> tuple[float, list[GuestStats]]:
        used = {"cpu.time": int(self.clock.seconds * SECOND)}
        keys = [(each.metadata.namespace, each.metadata.name) for each in self.guests]
        found = [
            GuestStats(namespace=namespace, name=name)
            if name in self.hung
            else GuestStats(namespace=namespace, name=name, answered=True, figures=used)
            for namespace, name in keys
        ]
        return self.clock.seconds, found

    def _find(self, key: Key) -> VirtualMachineInstance | None:
        return next((each for each in self.guests if (each.metadata.namespace, each.metadata.name) == key), None)

    def run(self, looks: int) -> None:
        for _ in range(looks):
            self.clock.seconds += 10
            self.keeper.look()

    def points(self, of: VirtualMachineInstance, span: str = "hour") -> int:
        """How many points are known of a guest."""
        return sum(value is not None for value in self.keeper.tell(of, span).series[CPUS])


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "handler" / "usage")


def test_each_look_is_a_point_from_the_second_one_on(node: Node) -> None:
    node.run(7)
    assert node.points(node.guests[0]) == 6
    assert node.keeper.tell(node.guests[0], "hour").series[CPUS][-1] == pytest.approx(1.0, rel=1e-3)


def test_a_guest_whose_launcher_does_not_answer_has_a_gap(node: Node) -> None:
    node.run(3)
    node.hung = {"web"}
    node.run(2)
    node.hung = set()
    node.run(1)
    assert [value is not None for value in node.keeper.tell(node.guests[0], "hour").series[CPUS][-4:]] == [
        True,
        False,
        False,
        True,
    ]


def test_a_clock_that_was_not_set_yet_costs_no_graph(node: Node) -> None:
    node.run(5)
    right, node.clock.seconds = node.clock.seconds, 0.0
    node.run(3)
    node.clock.seconds = right
    node.run(1)
    assert node.points(node.guests[0]) == 5


def test_graphs_survive_a_restart_of_the_process(node: Node) -> None:
    node.run(5)
    node.keeper.stop()
    node.start_again()
    assert node.points(node.guests[0]) == 4
    node.run(3)
    assert node.points(node.guests[0]) == 6


def test_a_process_that_is_killed_has_lost_five_minutes_at_most(node: Node) -> None:
    node.run(int(WRITE_SECONDS // 10))
    node.run(3)
    node.start_again()
    assert node.points(node.guests[0]) == WRITE_SECONDS // 10 - 1


def test_a_vm_keeps_its_graphs_through_its_runs(node: Node) -> None:
    node.run(3)
    node.guests = [vmi(uid="run-2")]
    node.run(2)
    assert node.points(node.guests[0]) == 4


@pytest.mark.parametrize(
    "other",
    [vmi(vm="vm-2"), vmi(namespace="bank"), vmi(name="till"), vmi(uid="run-2", vm=""), vmi(vm="../../vm-1")],
    ids=["a VM made anew", "of another namespace", "of another name", "a bare one", "with a path for its owner"],
)
def test_nobody_sees_the_graphs_of_another_vm(node: Node, other: VirtualMachineInstance) -> None:
    node.run(3)
    node.keeper.stop()
    assert node.points(other) == 0
    node.start_again()
    assert node.points(other) == 0
    assert set(ring_name(other)) <= set("0123456789abcdef")


def test_a_guest_that_has_ended_leaves_memory_and_is_still_told_of(node: Node) -> None:
    ended = node.guests[0]
    node.run(3)
    node.guests = []
    node.keeper.write()
    node.keeper.write()
    assert node.keeper._kept == {}
    assert node.points(ended) == 2


def test_a_guest_that_runs_elsewhere_is_not_kept(node: Node) -> None:
    node.keeper = UsageKeeper(node._look, lambda key: None, UsageFiles(node.directory), node.clock)
    node.run(3)
    node.keeper.stop()
    assert not list(node.directory.glob("*"))


def test_rings_of_a_month_ago_and_of_too_many_guests_are_removed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvedge.handler.usage.usage_files._MOST_FILES", 3)
    node.directory.mkdir(parents=True)
    now = node.clock.seconds
    for days in (0, 1, 2, 3, 32):
        path = node.directory / f"{days}.ring"
        path.touch()
        os.utime(path, (now - days * 86400,) * 2)
    (node.directory / "somebody-elses").touch()
    UsageFiles(node.directory).forget_old(now)
    assert sorted(path.name for path in node.directory.iterdir()) == ["0.ring", "1.ring", "2.ring", "somebody-elses"]
    UsageFiles(node.directory).forget_old(now + timedelta(days=31, hours=1).total_seconds())
    assert sorted(path.name for path in node.directory.iterdir()) == ["somebody-elses"]


def test_a_damaged_file_begins_anew_and_the_log_says_so(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.run(3)
    node.keeper.stop()
    (path,) = node.directory.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    node.start_again()
    with caplog.at_level(logging.WARNING):
        node.run(2)
    assert f"{path} is damaged" in caplog.text
    assert node.points(node.guests[0]) == 1


def test_a_disk_that_takes_nothing_is_told_once_and_ends_nothing(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.directory.parent.mkdir(parents=True)
    node.directory.touch()
    node.run(3)
    for _ in range(2):
        node.run(1)
        with caplog.at_level(logging.WARNING):
            node.keeper._files.write("a", node.keeper._kept[ring_name(node.guests[0])].ring)
    assert caplog.text.count("cannot be kept") == 1
    node.directory.unlink()
    node.keeper.stop()
    assert len(list(node.directory.iterdir())) == 1
