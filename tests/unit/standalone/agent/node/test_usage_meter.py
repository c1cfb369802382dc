"""What a node and its Pods use, by two looks at counters."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.standalone.agent.container.cgroup_usage import CgroupUsage
from kvedge.standalone.agent.node.usage_meter import LONGEST_SECONDS, Look, UsageMeter, compare, read_node
from kvedge.standalone.apiserver.routes.usage_source import Usage

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NONE = CgroupUsage(0, 0)


class Host:
    """A host whose one Pod uses half a CPU and 7 bytes, and whose clock goes on by what is slept."""

    def __init__(self, proc: Path) -> None:
        self.seconds, self.slept = 100.0, 0.0
        self.there = {"pod"}
        (proc / "stat").write_text("cpu  1 2 3 4 5 6 7 8 9 10\n")
        (proc / "meminfo").write_text("MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable: 4 kB\n")
        self.meter = UsageMeter("box", self, lambda: NOW, lambda: self.seconds, self.sleep, proc)

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.seconds += seconds

    def pods(self) -> frozenset[str]:
        return frozenset(self.there | {"mute"})

    def usage(self, pod: str) -> CgroupUsage | None:
        return CgroupUsage(int(self.seconds * 500_000_000), 7) if pod in self.there else None


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_first_question_takes_a_second_and_the_next_compares_with_it(host: Host) -> None:
    first = host.meter.measure()
    assert (first.node, first.moment, first.window, host.slept) == ("box", NOW, 1.0, 1.0)
    assert first.pods == {"pod": Usage(500_000_000, 7)}
    assert first.node_usage == Usage(0, 6 << 10)
    host.seconds += 20
    assert (host.meter.measure().window, host.slept) == (20.0, 1.0)


def test_who_asks_again_at_once_gets_the_same_answer(host: Host) -> None:
    first = host.meter.measure()
    host.seconds += 0.5
    assert host.meter.measure() is first


def test_after_a_long_while_a_new_look_is_taken(host: Host) -> None:
    host.meter.measure()
    host.seconds += LONGEST_SECONDS + 1
    assert (host.meter.measure().window, host.slept) == (1.0, 2.0)


def test_a_pod_that_is_new_is_told_of_by_the_next_answer(host: Host) -> None:
    host.meter.measure()
    host.there.add("new")
    host.seconds += 5
    assert host.meter.measure().pods.keys() == {"pod"}
    host.seconds += 5
    assert host.meter.measure().pods.keys() == {"pod", "new"}


def test_a_counter_that_began_anew_is_not_less_than_nothing() -> None:
    before = Look(1.0, NONE, {"pod": CgroupUsage(500, 1)})
    assert compare(before, Look(2.0, NONE, {"pod": CgroupUsage(3, 1)}))[1] == {"pod": Usage(0, 1)}


def test_a_host_is_busy_when_it_is_neither_idle_nor_waiting(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  1 2 3 1000 1000 6 7 8 1000 1000\ncpu0 5\n")
    (tmp_path / "meminfo").write_text("MemTotal: 10 kB\nMemFree: 1 kB\n")
    assert read_node(tmp_path) == CgroupUsage(27 * 10**9 // os.sysconf("SC_CLK_TCK"), 9 << 10)
