# Tests: kvedge/controller/controller_work.py
"""What the controller role says of itself while something in it does not work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.alarms.words.teller_desk import WordPlaces
from kvedge.controller.controller_service import ControllerRole
from kvedge.controller.controller_work import ControllerWork
from kvedge.controller.datavolumes import data_volume_work
from kvedge.kube.informer import Informer
from kvedge.kube.leases import LeaderElection
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.runtime import background
from kvedge.runtime.role import Parts, order_of_need
from tests.support.builders import CONFIG
from tests.support.waiting import wait_until


@pytest.fixture
def role(monkeypatch: pytest.MonkeyPatch) -> Iterator[ControllerRole]:
    """One that works, of a cluster that was listed."""
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.001)
    made = ControllerRole("kubeconfig", CONFIG, leader_election=True)
    made._work = work = ControllerWork(MagicMock(), MagicMock(), MagicMock(), MagicMock(), WordPlaces())
    monkeypatch.setattr(work, "wait_synced", lambda timeout: True)
    monkeypatch.setattr(work._configuration, "wait", lambda seconds: None)
    yield made
    work._starter.stop()


def test_a_leader_whose_lease_hangs_says_so(role: ControllerRole) -> None:
    let_go = threading.Event()
    election = LeaderElection(MagicMock(), "kubevirt", "virt-controller", "me", lambda: None, lambda: None)
    election.step = lambda: let_go.wait(60)  # type: ignore[assignment,method-assign,return-value]
    role._election = election
    role._parts = Parts(role._make_parts(MagicMock()))
    role._parts.start()
    assert role.failure() is None
    assert election._thread is not None
    election._thread.heartbeat.limit = 0.0
    wait_until(lambda: role.failure() is not None, "it is noticed")
    assert str(role.failure()).startswith("lease: the thread lease-virt-controller has been stuck for")
    election._stop.set()
    let_go.set()
    role.stop()
    assert role._work is None


class Loop:
    """One that cannot be started, until it can."""

    def __init__(self, failures: int | None) -> None:
        self.failures = failures
        self.tries = 0
        self.begun = threading.Event()

    def start(self) -> None:
        self.tries += 1
        if self.failures is None or self.tries <= self.failures:
            raise LookupError("on purpose")
        self.begun.set()


def _start(role: ControllerRole, loop: Any) -> None:
    assert role._work is not None
    role._work._to_start = deque([loop])
    role._work._starter.start()


def test_a_controller_whose_loops_never_start_is_not_ready_and_says_why(role: ControllerRole) -> None:
    assert (role.ready, role.summary()) == (True, "")
    loop = Loop(None)
    _start(role, loop)
    wait_until(lambda: not role.ready, "it is told")
    assert role.summary() == "the controller cannot begin: LookupError: on purpose"
    assert role.failure() is None, "another process would fail as well"
    loop.failures = 0
    wait_until(lambda: role.ready, "it is tried on, and works in the end")
    assert (loop.begun.is_set(), role.summary()) == (True, "")


def test_a_few_failures_are_not_worth_a_word(role: ControllerRole) -> None:
    loop = Loop(4)
    _start(role, loop)
    while not loop.begun.wait(0.001):
        assert role.ready
    assert role.summary() == ""


@pytest.mark.parametrize("part", ["_replicas", "_pools", "_data_volumes"])
def test_a_part_that_never_begins_is_told_and_its_loops_hear_of_changes_once(
    role: ControllerRole, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    work = getattr(role._work, part)
    broken = threading.Event()
    broken.set()
    begin = ReconcileLoop.start

    def start(loop: ReconcileLoop) -> None:
        if broken.is_set():
            raise RuntimeError("can't start new thread")
        begin(loop)

    heard: list[tuple[int, str]] = []
    monkeypatch.setattr(ReconcileLoop, "start", start)
    monkeypatch.setattr(Informer, "start", lambda informer: None)
    monkeypatch.setattr(Informer, "wait_synced", lambda informer, timeout: True)
    monkeypatch.setattr(
        Informer, "on_change", lambda informer, callback: heard.append((id(informer), callback.__qualname__))
    )
    monkeypatch.setattr(data_volume_work, "cdi_serves", lambda crd: False)
    monkeypatch.setattr(data_volume_work, "_FIRST_LOOK_SECONDS", 0.001)
    work.start()
    wait_until(lambda: not role.ready, "it is told")
    assert role.summary() == "the controller cannot begin: RuntimeError: can't start new thread"
    assert role.failure() is None
    broken.clear()
    wait_until(lambda: role.ready, "it is tried on, and works in the end")
    # Most of the other loops begin to hear when they are made.
    assert heard or part != "_data_volumes"
    assert len(heard) == len(set(heard))
    work.stop()


def test_the_work_for_data_volumes_says_which_of_its_informers_has_ended(
    role: ControllerRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert role._work is not None
    work = role._work._data_volumes
    assert work.failure() is None
    monkeypatch.setattr(work.data_sources, "failure", lambda: "the thread informer-datasources has ended")
    assert work.failure() == "the thread informer-datasources has ended"


def test_each_loop_is_a_part_that_names_itself_and_stops_after_their_starter(
    role: ControllerRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = role._work
    assert work is not None
    monkeypatch.setattr(work._hotplug_loop.loop, "failure", lambda: "stuck")
    order = order_of_need(work._make_parts())
    loops = ["node loop", "KubeVirt loop", "VMI loop", "hotplug loop", "VM loop"]
    assert [each.name for each in order if each.name in (*loops, "start of the loops")] == [
        *loops,
        "start of the loops",
    ]
    assert {each.name: why for each in order if (why := each.failure()) is not None} == {"hotplug loop": "stuck"}
